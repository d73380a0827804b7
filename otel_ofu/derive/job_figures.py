"""What the GPUs of jobs come to in one window, for any number of jobs and GPUs at once.

Enters: one row for each GPU that a job holds; the totals of the jobs. Leaves: one number for each
job, and an `Observation` of it all.
A GPU that has no OFU is left out of the mean and shows as coverage: it is not a GPU at 0. An idle
GPU has an OFU, and that is 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from otel_ofu.model import Entity, Gap, GapReason, Observation, Window
from otel_ofu.store import JobTime

Doubles = NDArray[np.float64]
Indices = NDArray[np.intp]


# Whether a kernel ran, the best witness first.
BUSY_KEYS = ("gpu_util", "gr_engine_active", "sm_active")


@dataclass(frozen=True, slots=True)
class JobFigureSettings:
    """`target_ofu`: what GPU time is held against; `idle_below`: a busy share that is none.

    Both in (0, 1]. Counters of whether a kernel ran round to 1 % or worse. `allowed_lateness_s`:
    how long a gateway waits for the data of a window.
    """

    target_ofu: float = 0.4
    idle_below: float = 0.01
    allowed_lateness_s: float = 20.0

    def __post_init__(self) -> None:
        if not 0 < self.target_ofu <= 1:
            raise ValueError(f"target_ofu: {self.target_ofu:g}; allowed: above 0, at most 1")
        if not 0 < self.idle_below <= 1:
            raise ValueError(f"idle_below: {self.idle_below:g}; allowed: above 0, at most 1")


@dataclass(frozen=True, slots=True)
class GpuRows:
    """One row a GPU; NaN for what is not known of it.

    `job`: which job, from 0. `share` in (0, 1]: the part of the GPU that counts for it. `length_s`:
    how long the window is. `limit`: FLOP/s that the GPU could reach.
    """

    job: Indices
    share: Doubles
    length_s: Doubles
    ofu: Doubles
    limit: Doubles


@dataclass(frozen=True, slots=True)
class JobFigures:
    """One number a job, by registry key, NaN where there is none.

    `peak`: mean FLOP limit of a GPU of the job.
    """

    gauges: dict[str, Doubles]
    peak: Doubles


def figures(rows: GpuRows, jobs: int) -> JobFigures:
    """The figures of `jobs` jobs, of which each has at least one row."""

    def total(values: Doubles) -> Doubles:
        return np.bincount(rows.job, np.nan_to_num(values), jobs).astype(np.float64)

    known = ~np.isnan(rows.ofu)
    # Readings of an instant have no length, and count alike.
    weight = rows.share * np.where(rows.length_s > 0, rows.length_s, 1.0)
    seen = np.where(known, weight, 0.0)
    lowest, median, highest = spread(rows.job[known], rows.ofu[known], jobs)
    gauges = {
        "job_ofu": ratio(total(seen * rows.ofu), total(seen)),
        "job_flop_ofu": _by_limit(rows, known, total(seen * rows.ofu * rows.limit), jobs),
        "job_ofu_min": lowest,
        "job_ofu_median": median,
        "job_ofu_max": highest,
        "job_coverage": np.minimum(1.0, ratio(total(seen), total(weight))),
        "job_gpu_count": total(rows.share),
    }
    unlimited = total(np.isnan(rows.limit).astype(np.float64)) > 0
    peak = np.where(unlimited, np.nan, ratio(total(rows.share * rows.limit), total(rows.share)))
    return JobFigures(gauges, peak)


def _by_limit(rows: GpuRows, known: NDArray[np.bool_], done: Doubles, jobs: int) -> Doubles:
    """FLOPs done over FLOPs possible; none while a limit is not known, rather than a part of it."""
    weight = rows.share * np.where(rows.length_s > 0, rows.length_s, 1.0)
    each = np.nan_to_num(np.where(known, weight * rows.limit, 0.0))
    possible = np.bincount(rows.job, each, jobs).astype(np.float64)
    unknown = known & np.isnan(rows.limit)
    lacking = np.bincount(rows.job, unknown.astype(np.float64), jobs) > 0
    return np.where(lacking, np.nan, ratio(done, possible))


def spread(job: Indices, values: Doubles, jobs: int) -> tuple[Doubles, Doubles, Doubles]:
    """Lowest, median and highest value of each job; NaN for a job without any."""
    order = np.lexsort((values, job))
    ordered = values[order]
    counts = np.bincount(job, minlength=jobs)
    ends = np.cumsum(counts)
    starts = ends - counts
    some = counts > 0

    def at(positions: Indices) -> Doubles:
        found = np.full(jobs, np.nan)
        found[some] = ordered[positions[some]]
        return found

    lower, upper = at(starts + (counts - 1) // 2), at(starts + counts // 2)
    return at(starts), lower + (upper - lower) / 2, at(ends - 1)


def ratio(part: Doubles, whole: Doubles) -> Doubles:
    """NaN where the whole is 0."""
    result = np.full(len(whole), np.nan)
    np.divide(part, whole, out=result, where=whole > 0)
    return result


NO_OFU = Gap(GapReason.NOT_READY, "no GPU of the job has an OFU in this window")
NO_LIMIT = Gap(GapReason.NOT_SUPPORTED, "the FLOP limit of a GPU of the job is not known")
NO_REPORT = Gap(GapReason.NOT_READY, "the job does not report its speed")

Reports = Mapping[str, Mapping[str, float]]
"""By job: `model_flop_rate` (FLOP/s of one GPU) and `mfu_reported`, where the job reports it."""

TOTALS: Mapping[str, str] = {
    "gpu_time_allocated": "job_gpu_time",
    "gpu_time_observed": "job_observed_time",
    "gpu_time_effective": "job_effective_time",
    "gpu_time_idle": "job_idle_time",
    "gpu_time_below_target": "job_lost_time",
}
"""By counter of a GPU with a job: the total of the job."""


def observations(
    jobs: Sequence[tuple[Entity, Window]], found: JobFigures, reports: Reports
) -> list[Observation]:
    """The figures of each job, in the order in which they are numbered."""
    rows = {key: values.tolist() for key, values in found.gauges.items()}
    peaks = found.peak.tolist()
    result = []
    for number, (entity, window) in enumerate(jobs):
        values = {key: row[number] for key, row in rows.items()}
        values["mfu"] = _mfu(reports.get(entity.id, {}), peaks[number])
        result.append(_observation(entity, window, values))
    return result


def total(entity: Entity, window: Window, time: JobTime) -> Observation:
    """The totals of a job, whose sums have the names of `TOTALS`."""
    return Observation(entity, window, time.sums, {}, dict.fromkeys(time.sums, time.start_s))


def _mfu(report: Mapping[str, float], peak: float) -> float:
    """Over the peak that OFU has, if the job reports its FLOP rate; NaN if it reports nothing."""
    rate = report.get("model_flop_rate")
    if rate is not None and peak > 0:
        return rate / peak
    return report.get("mfu_reported", float("nan"))


def _observation(entity: Entity, window: Window, gauges: Mapping[str, float]) -> Observation:
    values = {key: value for key, value in gauges.items() if value == value}  # noqa: PLR0124 - NaN is not itself
    reasons = {"job_flop_ofu": NO_LIMIT if "job_ofu" in values else NO_OFU, "mfu": NO_REPORT}
    gaps = {key: reasons.get(key, NO_OFU) for key in gauges if key not in values}
    return Observation(entity, window, values, gaps)
