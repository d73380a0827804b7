"""Sums -> what the page shows: figures of each job, and of all together.

Enters: a `ReportBuilder`. Leaves: an `MfuReport`, frozen. OFU and MFU of a job are compared over
the same buckets of time, each weighted by its GPU time; what is not known is None, never 0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from otel_ofu.report.gather import NOBODY, JobAttributes, ReportBuilder
from otel_ofu.report.reasons import MfuAssessment, judge, peak_reason, unsteady_reason
from otel_ofu.report.text import counted
from otel_ofu.report.timeline import BucketSums, Doubles

HOUR_S = 3600.0


@dataclass(frozen=True, slots=True)
class RatioSeries:
    """A job over time: starts of buckets (Unix seconds), ratios; NaN where there is none."""

    times_s: Doubles
    ofu: Doubles
    mfu: Doubles


@dataclass(frozen=True, slots=True)
class Job:
    """One job. Hours are GPU-hours, the rest ratios.

    `ofu`: over all of its time. `ofu_then`: over the time in which MFU is known, which is what
    `mfu` is compared with. `peak_ratio`: MFU that it prints / MFU over our peak. `own_peak`: its
    MFU is over the peak that it chose itself, since it reports no FLOP rate.
    """

    id: str
    about: JobAttributes
    gpus: int
    start_s: float
    end_s: float
    held_h: float
    seen_h: float
    idle_h: float
    lost_h: float
    ofu: float | None
    ofu_then: float | None
    mfu: float | None
    both_s: float
    peak_ratio: float | None
    own_peak: bool
    verdict: MfuAssessment
    series: RatioSeries

    @property
    def coverage(self) -> float | None:
        return self.seen_h / self.held_h if self.held_h > 0 else None

    @property
    def ratio(self) -> float | None:
        """MFU / OFU over the same time."""
        if self.mfu is None or not self.ofu_then:
            return None
        return self.mfu / self.ofu_then

    @property
    def reasons(self) -> Sequence[str]:
        """What is likely behind the ratio, first what is certain."""
        certain = [peak_reason(self.peak_ratio)]
        if self.verdict.flagged:
            certain.append(unsteady_reason(self.series.ofu, self.series.mfu))
        return [*filter(None, certain), *self.verdict.reasons]

    @property
    def other_peak(self) -> bool:
        """Whether the MFU that it prints is over another peak than ours."""
        return bool(peak_reason(self.peak_ratio))


@dataclass(frozen=True, slots=True)
class Agreement:
    """How well OFU and MFU agree over some jobs; `error` is the mean absolute one, a ratio."""

    jobs: int
    r: float | None
    error: float | None


@dataclass(frozen=True, slots=True)
class JobsSummary:
    """All jobs together. Hours are GPU-hours."""

    jobs: int
    without_mfu: int
    short: int
    flagged: int
    every: Agreement
    kept: Agreement
    ofu: float | None
    coverage: float | None
    held_h: float
    seen_h: float
    idle_h: float
    lost_h: float
    without_job_h: float


@dataclass(frozen=True, slots=True)
class MfuReport:
    """`jobs`: the most lost GPU-hours first. `without_job`: GPUs of no job. `bucket_s`: width."""

    summary: JobsSummary
    jobs: Sequence[Job]
    without_job: Job | None
    target_ofu: float
    bucket_s: float
    start_s: float | None
    end_s: float | None
    sources: Sequence[str] = ()
    notes: Sequence[str] = field(default=())


def report_of(
    gather: ReportBuilder, sources: Sequence[str] = (), notes: Sequence[str] = ()
) -> MfuReport:
    """`sources`: where it comes from. `notes`: what a reader should know; `gather`'s follow."""
    made = [_job(gather, id_) for id_ in gather.timelines]
    jobs = sorted((j for j in made if j.id != NOBODY), key=lambda j: (-j.lost_h, j.id))
    unowned = next((j for j in made if j.id == NOBODY), None)
    return MfuReport(
        _summary(jobs, unowned),
        jobs,
        unowned,
        gather.target_ofu,
        gather.timelines.width_s,
        min((j.start_s for j in made), default=None),
        max((j.end_s for j in made), default=None),
        sources,
        [*notes, *_notes(gather)],
    )


def _job(gather: ReportBuilder, id_: str) -> Job:
    times_s, sums = gather.timelines.of(id_)
    width_s, about = gather.timelines.width_s, gather.about[id_]
    total = sums.sum(axis=0)
    ours, printed, own_peak = _mfus(sums, total)
    ofu = _over(sums[:, BucketSums.DONE], sums[:, BucketSums.SEEN])
    both = ~np.isnan(ofu) & ~np.isnan(ours)
    weight = np.where(both, sums[:, BucketSums.SEEN], 0.0)
    mfu = _mean(ours, weight)
    then = _mean(ofu, weight)
    both_s = float(both.sum()) * width_s
    held = np.flatnonzero(sums.any(axis=1))
    return Job(
        id=id_,
        about=about,
        gpus=about.gpus or math.ceil(float(sums[:, BucketSums.HELD].max()) / width_s - 0.01),
        start_s=float(times_s[held[0]]),
        end_s=float(times_s[held[-1]]) + width_s,
        held_h=float(total[BucketSums.HELD]) / HOUR_S,
        seen_h=float(total[BucketSums.SEEN]) / HOUR_S,
        idle_h=float(total[BucketSums.IDLE]) / HOUR_S,
        lost_h=float(total[BucketSums.LOST]) / HOUR_S,
        ofu=_one(total[BucketSums.DONE], total[BucketSums.SEEN]),
        ofu_then=then,
        mfu=mfu,
        both_s=both_s,
        peak_ratio=None if own_peak else _one(_mean(printed, weight) or math.nan, mfu or math.nan),
        own_peak=own_peak and mfu is not None,
        verdict=_verdict(mfu, then, both_s, reported=bool(np.any(~np.isnan(ours)))),
        series=RatioSeries(times_s, ofu, ours),
    )


def _mfus(sums: Doubles, total: Doubles) -> tuple[Doubles, Doubles, bool]:
    """By bucket MFU over our peak, and as the job prints it; whether the first is the second."""
    peak = _one(total[BucketSums.LIMIT], total[BucketSums.LIMITED])
    printed = _over(sums[:, BucketSums.PRINTED], sums[:, BucketSums.PRINTED_S])
    ours = _over(sums[:, BucketSums.MFU], sums[:, BucketSums.MFU_S])
    if peak is not None:
        rate = _over(sums[:, BucketSums.RATE], sums[:, BucketSums.RATE_S]) / peak
        ours = np.where(np.isnan(ours), rate, ours)
    if np.isnan(ours).all():
        return printed, printed, True
    return ours, printed, False


def _verdict(
    mfu: float | None, ofu: float | None, both_s: float, *, reported: bool
) -> MfuAssessment:
    if mfu is None or not ofu:
        return MfuAssessment("unseen" if reported else "silent")
    return judge(mfu, ofu, both_s)


def _summary(jobs: Sequence[Job], unowned: Job | None) -> JobsSummary:
    every = [j for j in jobs if j.ratio is not None]
    held_h, seen_h = sum(j.held_h for j in jobs), sum(j.seen_h for j in jobs)
    done_h = sum(j.ofu * j.seen_h for j in jobs if j.ofu is not None)
    return JobsSummary(
        jobs=len(jobs),
        without_mfu=sum(j.verdict.kind == "silent" for j in jobs),
        short=sum(j.verdict.kind == "short" for j in jobs),
        flagged=sum(j.verdict.flagged for j in jobs),
        every=_agreement(every),
        kept=_agreement([j for j in every if not j.verdict.flagged]),
        ofu=_one(done_h, seen_h),
        coverage=_one(seen_h, held_h),
        held_h=held_h,
        seen_h=seen_h,
        idle_h=sum(j.idle_h for j in jobs),
        lost_h=sum(j.lost_h for j in jobs),
        without_job_h=unowned.held_h if unowned else 0.0,
    )


def _agreement(jobs: Sequence[Job]) -> Agreement:
    pairs = [(j.ofu_then, j.mfu) for j in jobs if j.ofu_then is not None and j.mfu is not None]
    ofu, mfu = [p[0] for p in pairs], [p[1] for p in pairs]
    return Agreement(len(pairs), pearson(ofu, mfu), mean_absolute_error(ofu, mfu))


LEAST_HOURS = 0.1


def _notes(gather: ReportBuilder) -> list[str]:
    notes = []
    if gather.unmatched:
        notes.append(
            f"{counted(gather.unmatched, 'report')} left out: of a job that holds no GPU here, or "
            "without a usable figure."
        )
    if gather.outside:
        notes.append(
            f"{counted(gather.outside, 'report')} left out: from before or after the time shown."
        )
    if gather.odd:
        notes.append(
            f"{counted(gather.odd, 'reading')} left out: their windows end before they start."
        )
    if gather.repeated_s > 0:
        notes.append(f"{_gpu_time(gather.repeated_s)} came more than once and were counted once.")
    return notes


def _gpu_time(seconds: float) -> str:
    """In seconds where the hours would be shown as 0.0."""
    hours = seconds / HOUR_S
    return f"{hours:,.1f} GPU-hours" if hours >= LEAST_HOURS else f"{seconds:,.1f} GPU-seconds"


def _over(part: Doubles, whole: Doubles) -> Doubles:
    """NaN where the whole is 0."""
    result = np.full(len(whole), np.nan)
    np.divide(part, whole, out=result, where=whole > 0)
    return result


def _one(part: float, whole: float) -> float | None:
    return float(part / whole) if whole > 0 and not math.isnan(part) else None


def _mean(values: Doubles, weight: Doubles) -> float | None:
    known = ~np.isnan(values) & (weight > 0)
    if not known.any():
        return None
    return float(np.average(values[known], weights=weight[known]))


FEWEST = 3  # two points always lie on a line


def pearson(x: Sequence[float], y: Sequence[float]) -> float | None:
    """Pearson's r in [-1, 1]; None for fewer than three pairs or a side that does not vary."""
    if len(x) < FEWEST:
        return None
    dx, dy = np.array(x) - np.mean(x), np.array(y) - np.mean(y)
    scale = math.sqrt(float(dx @ dx) * float(dy @ dy))
    if scale <= 0 or not math.isfinite(scale):
        return None
    return min(1.0, max(-1.0, float(dx @ dy) / scale))


def mean_absolute_error(x: Sequence[float], y: Sequence[float]) -> float | None:
    """Mean of |x - y|, in the unit of both; None for no pairs."""
    if not len(x):
        return None
    return float(np.mean(np.abs(np.array(x) - np.array(y))))
