"""The counters of jobs, from their first window on; forgotten when a job is gone for a while.

Enters: gains by job and window. Leaves: running totals with their start.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from otel_ofu.derive.job_figures import Figures
from otel_ofu.model import Entity, Gap, GapReason, Observation, Window

FORGET_S = 900.0
NO_OFU = Gap(GapReason.NOT_READY, "no GPU of the job has an OFU in this window")
NO_LIMIT = Gap(GapReason.NOT_SUPPORTED, "the FLOP limit of a GPU of the job is not known")
NO_REPORT = Gap(GapReason.NOT_READY, "the job does not report its speed")

Reports = Mapping[str, Mapping[str, float]]
"""By job: `model_flop_rate` (FLOP/s of one GPU) and `mfu_reported`, where the job says so."""


@dataclass(slots=True)
class _Total:
    start_s: float
    seen_s: float
    sums: dict[str, float] = field(default_factory=dict)


class JobTotals:
    """Belongs to one thread. A restart begins anew, with a new start."""

    def __init__(self) -> None:
        self._totals: dict[str, _Total] = {}

    def __len__(self) -> int:
        return len(self._totals)

    def observations(
        self,
        jobs: Sequence[tuple[Entity, Window]],
        found: Figures,
        reports: Reports | None = None,
    ) -> list[Observation]:
        """Counts a window of each job, and tells all that is known of it."""
        rows = {key: values.tolist() for key, values in found.gauges.items()}
        gains = {key: values.tolist() for key, values in found.gains.items()}
        peaks = found.peak.tolist()
        result = []
        for number, (entity, window) in enumerate(jobs):
            values = {key: row[number] for key, row in rows.items()}
            report = (reports or {}).get(entity.id, {})
            values["mfu"] = _mfu(report, peaks[number])
            total = self._counted(entity.id, window, {k: row[number] for k, row in gains.items()})
            result.append(_observation(entity, window, values, total))
        return result

    def forget(self, now_s: float) -> None:
        """Forgets jobs that have had no window for a quarter of an hour."""
        kept = {job: t for job, t in self._totals.items() if t.seen_s >= now_s - FORGET_S}
        self._totals = kept

    def _counted(self, job: str, window: Window, gains: Mapping[str, float]) -> _Total:
        total = self._totals.get(job)
        if total is None:
            total = self._totals[job] = _Total(window.start_s, window.end_s)
        total.seen_s = window.end_s
        for key, gain in gains.items():
            total.sums[key] = total.sums.get(key, 0.0) + gain
        return total


def _mfu(report: Mapping[str, float], peak: float) -> float:
    """Over the peak that OFU has, as far as the job lets us; NaN if it says nothing."""
    rate = report.get("model_flop_rate")
    if rate is not None and peak > 0:
        return rate / peak
    return report.get("mfu_reported", float("nan"))


def _observation(
    entity: Entity, window: Window, gauges: Mapping[str, float], total: _Total
) -> Observation:
    values = {key: value for key, value in gauges.items() if value == value}  # noqa: PLR0124 - NaN is not itself
    reasons = {"job_flop_ofu": NO_LIMIT if "job_ofu" in values else NO_OFU, "mfu": NO_REPORT}
    gaps = {key: reasons.get(key, NO_OFU) for key in gauges if key not in values}
    starts = dict.fromkeys(total.sums, total.start_s)
    return Observation(entity, window, {**values, **total.sums}, gaps, starts)
