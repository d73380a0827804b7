"""Collects what is known of jobs, however long it goes on.

Enters: observations of GPUs, what jobs reported of themselves, or sums that a server computed; in
any order. Leaves: sums by job and time, and what was left out.

A GPU counts each second once: a window that was counted before (two recordings of the same hours)
adds nothing. The windows of one GPU have to come in the order of time.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from otel_ofu.model import Observation
from otel_ofu.model.owner import JOB_ID
from otel_ofu.model.report_interval import ReportInterval
from otel_ofu.report.timeline import BucketSums, Doubles, Timelines

NOBODY = ""
"""The key of GPUs without a job."""

# Whether a kernel ran, the best witness first; counters of it round to 1 % or worse.
BUSY_KEYS = ("gpu_util", "gr_engine_active", "sm_active")
IDLE_BELOW = 0.01
SHARE = "owner_share"

_ATTRIBUTES = {"ofu.gpu.sku": "skus", "ofu.precision": "precisions", "host.name": "hosts"}
# Starting value: it bounds the memory for hosts of a job, 8,192 GPUs.
MOST_NAMES = 1024
JUST_BEFORE_S = 1e-3  # a report speaks of the time before it, also at the edge of a bucket


@dataclass(frozen=True, slots=True)
class SpeedReport:
    """What a job reported at an instant (Unix seconds): a ratio, FLOP/s of one GPU, or both.

    It speaks about the time since the report before, at most two of its usual intervals. `mfu` is
    over the peak that the job chose; `our_mfu` over the peak that OFU has.
    """

    job: str
    time_s: float
    mfu: float | None = None
    flop_per_s: float | None = None
    our_mfu: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuTime:
    """GPU time of a job around an instant, added up by somebody else; GPU-seconds.

    `held_s`: all of it, `seen_s`: with an OFU, `done_s`: integral of OFU, `idle_s`: no kernel ran.
    `limit`: mean FLOP/s that a GPU could reach, None where it is not known.
    """

    job: str
    time_s: float
    held_s: float
    seen_s: float
    done_s: float
    idle_s: float = 0.0
    limit: float | None = None


@dataclass(slots=True)
class JobAttributes:
    """What is known of a job beside numbers."""

    skus: set[str] = field(default_factory=set)
    precisions: set[str] = field(default_factory=set)
    hosts: set[str] = field(default_factory=set)
    gpus: int = 0

    def learn(self, attributes: Mapping[str, object]) -> None:
        for name, where in _ATTRIBUTES.items():
            known: set[str] = getattr(self, where)
            value = attributes.get(name)
            if value is not None and len(known) < MOST_NAMES:
                known.add(str(value))


ROUNDING = 0.01
"""Starting value: an overlap up to this share of a window comes of clocks, and is no repetition.

A window ends by the wall clock and is as long as the monotonic one counts; NTP slews 500 ppm.
"""


class ReportBuilder:
    """Belongs to one thread.

    `target_ofu` in (0, 1]: what GPU time is held against. `step_s`: the narrowest bucket of time.
    `job`: the owner of GPUs without a job. `unmatched` and `outside` count reports that were
    left out, `repeated_s` GPU-seconds that came twice, `odd` windows that end before they start.
    """

    def __init__(self, target_ofu: float = 0.4, step_s: float = 30.0, job: str = NOBODY) -> None:
        if not 0 < target_ofu <= 1:
            raise ValueError(f"target OFU: {target_ofu:g}; allowed: above 0, at most 1")
        self.target_ofu = target_ofu
        self.timelines = Timelines(step_s)
        self.about: dict[str, JobAttributes] = {}
        self.unmatched = 0
        self.outside = 0
        self.odd = 0
        self.repeated_s = 0.0
        self._job = job
        self._counted_s: dict[str, float] = {}
        self._intervals: dict[str, ReportInterval] = {}

    def observe(self, observations: Iterable[Observation]) -> None:
        """One round of GPUs; other entities are passed over."""
        rounds: dict[tuple[str, float], list[float]] = {}
        for seen in observations:
            if seen.entity.kind != "gpu":
                continue
            job = str(seen.entity.attributes.get(JOB_ID) or self._job)
            fresh_s = self._fresh_s(job, seen)
            if fresh_s > 0:
                key = (job, (seen.window.start_s + seen.window.end_s) / 2)
                sums = rounds.get(key)
                if sums is None:
                    sums = rounds[key] = [0.0] * len(BucketSums)
                self._count(sums, fresh_s, seen.values)
        for (job, time_s), sums in rounds.items():
            self.timelines.add(job, time_s, sums)

    def add_report(self, report: SpeedReport) -> None:
        """A report of a job, in the order of time. What it is compared with has to be there first.

        A report of a job that holds no GPU here, without a usable figure, or from another time is
        left out and counted.
        """
        rates, job, at_s = _rates(report), report.job, report.time_s - JUST_BEFORE_S
        if job == NOBODY or job not in self.timelines or not rates.any():
            self.unmatched += 1
            return
        if not self.timelines.spans(at_s):
            self.outside += 1
            return
        start_s = self._intervals.setdefault(job, ReportInterval()).add(report.time_s)
        if start_s < at_s:
            self.timelines.add_over(job, start_s, report.time_s, rates)
        else:
            self.timelines.add(job, at_s, rates)

    def add(self, seen: GpuTime) -> None:
        """Sums of a server. Lost time is that of the job as a whole: GPUs even each other out."""
        sums = [0.0] * len(BucketSums)
        sums[BucketSums.HELD], sums[BucketSums.SEEN], sums[BucketSums.DONE] = (
            seen.held_s,
            seen.seen_s,
            seen.done_s,
        )
        sums[BucketSums.LOST] = max(0.0, seen.seen_s - seen.done_s / self.target_ofu)
        sums[BucketSums.IDLE] = seen.idle_s
        if seen.limit is not None:
            sums[BucketSums.LIMIT], sums[BucketSums.LIMITED] = seen.limit * seen.held_s, seen.held_s
        self.about.setdefault(seen.job, JobAttributes())
        self.timelines.add(seen.job, seen.time_s, sums)

    def describe(self, job: str, attributes: Mapping[str, object]) -> None:
        """Attributes of a job or one of its GPUs, by their OpenTelemetry names."""
        self.about.setdefault(job, JobAttributes()).learn(attributes)

    def only_job(self) -> str:
        """The job, if there is just one; else empty."""
        jobs = [job for job in self.timelines if job != NOBODY]
        return jobs[0] if len(jobs) == 1 else NOBODY

    def _fresh_s(self, job: str, seen: Observation) -> float:
        """GPU-seconds of a window that were not counted before; a shared GPU by its share."""
        window, id_ = seen.window, seen.entity.id
        if not 0 <= window.length_s < math.inf:
            self.odd += 1
            return 0.0
        counted_s = self._counted_s.get(id_)
        if counted_s is None:
            about = self.about.setdefault(job, JobAttributes())
            about.gpus += 1
            about.learn({**seen.entity.attributes, **seen.point_attributes})
            counted_s = window.start_s
        self._counted_s[id_] = max(counted_s, window.end_s)
        fresh_s = max(0.0, window.end_s - max(window.start_s, counted_s))
        if window.length_s - fresh_s > ROUNDING * window.length_s:
            self.repeated_s += window.length_s - fresh_s
        return fresh_s * seen.values.get(SHARE, 1.0)

    def _count(self, sums: list[float], fresh_s: float, values: Mapping[str, float]) -> None:
        sums[BucketSums.HELD] += fresh_s
        ofu = values.get("ofu")
        if ofu is not None:
            sums[BucketSums.SEEN] += fresh_s
            sums[BucketSums.DONE] += fresh_s * ofu
            sums[BucketSums.LOST] += fresh_s * max(0.0, 1.0 - ofu / self.target_ofu)
        limit = values.get("flop_limit")
        if limit is not None:
            sums[BucketSums.LIMIT] += fresh_s * limit
            sums[BucketSums.LIMITED] += fresh_s
        busy = next((values[key] for key in BUSY_KEYS if key in values), None)
        if busy is not None and busy < IDLE_BELOW:
            sums[BucketSums.IDLE] += fresh_s


def _rates(report: SpeedReport) -> Doubles:
    """What a second of the time that a report speaks about adds to a bucket."""
    rates = np.zeros(len(BucketSums))
    for where, value in (
        (BucketSums.PRINTED, report.mfu),
        (BucketSums.RATE, report.flop_per_s),
        (BucketSums.MFU, report.our_mfu),
    ):
        # A figure that a job cannot have meant (not finite, below 0) is none.
        if value is not None and math.isfinite(value) and value >= 0:
            rates[where], rates[where + 1] = value, 1.0
    return rates
