"""What the GPUs of jobs add up to, for any number of jobs and GPUs at once.

Enters: one row for each GPU that a job holds, over one window. Leaves: one number for each job.
A GPU that has no OFU is left out of the mean and shows as coverage: it is not a GPU at 0. An idle
GPU has an OFU, and that is 0.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Doubles = NDArray[np.float64]
Indices = NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class JobSettings:
    """`target_ofu`: what GPU time is held against; `idle_below`: a busy share that is none.

    Both in (0, 1]. The counters that say whether a kernel ran round to 1 % or worse.
    """

    target_ofu: float = 0.4
    idle_below: float = 0.01

    def __post_init__(self) -> None:
        if not 0 < self.target_ofu <= 1:
            raise ValueError(f"target_ofu: {self.target_ofu:g}; allowed: above 0, at most 1")
        if not 0 < self.idle_below <= 1:
            raise ValueError(f"idle_below: {self.idle_below:g}; allowed: above 0, at most 1")


@dataclass(frozen=True, slots=True)
class GpuRows:
    """One row a GPU; NaN for what is not known of it.

    `job`: which job, from 0. `share` in (0, 1]: the part of the GPU that counts for it. `length_s`:
    how long the window is. `fresh_s`: how much of it was not counted before. `limit`: FLOP/s that
    the GPU could reach. `busy`: share of the time in which a kernel ran.
    """

    job: Indices
    share: Doubles
    length_s: Doubles
    fresh_s: Doubles
    ofu: Doubles
    limit: Doubles
    busy: Doubles


@dataclass(frozen=True, slots=True)
class Figures:
    """One number a job, by registry key; `peak`: mean FLOP limit of a GPU of the job.

    `gauges` are of the window, NaN where there is none; `gains` are of the counters, in seconds.
    """

    gauges: dict[str, Doubles]
    gains: dict[str, Doubles]
    peak: Doubles


def figures(rows: GpuRows, jobs: int, settings: JobSettings) -> Figures:
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
    held_s = rows.share * rows.fresh_s
    lost = np.maximum(0.0, 1.0 - rows.ofu / settings.target_ofu)
    gains = {
        "job_gpu_time": total(held_s),
        "job_observed_time": total(np.where(known, held_s, 0.0)),
        "job_effective_time": total(held_s * rows.ofu),
        "job_idle_time": total(np.where(rows.busy < settings.idle_below, held_s, 0.0)),
        "job_lost_time": total(held_s * lost),
    }
    unlimited = total(np.isnan(rows.limit).astype(np.float64)) > 0
    peak = np.where(unlimited, np.nan, ratio(total(rows.share * rows.limit), total(rows.share)))
    return Figures(gauges, gains, peak)


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

    def at(places: Indices) -> Doubles:
        found = np.full(jobs, np.nan)
        found[some] = ordered[places[some]]
        return found

    lower, upper = at(starts + (counts - 1) // 2), at(starts + counts // 2)
    return at(starts), lower + (upper - lower) / 2, at(ends - 1)


def ratio(part: Doubles, whole: Doubles) -> Doubles:
    """NaN where the whole is 0."""
    result = np.full(len(whole), np.nan)
    np.divide(part, whole, out=result, where=whole > 0)
    return result
