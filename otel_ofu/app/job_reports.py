"""What jobs report of themselves: pushed over OTLP, or read from their logs.

Enters: a receiver, a follower of logs. Leaves: job observations, and the newest figures by job.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace

from otel_ofu.app.collectors import CollectedValues
from otel_ofu.app.shared_gpus import SHARE
from otel_ofu.config import Config, Jobs
from otel_ofu.derive.fleet_jobs import FleetJobs
from otel_ofu.derive.job_figures import JobFigureSettings
from otel_ofu.derive.jobs import JobAggregator
from otel_ofu.derive.reported import ReportedFigures
from otel_ofu.mfu import JobReport
from otel_ofu.mfu.logs import Follower, build_follower
from otel_ofu.model import Entity, Observation, Window
from otel_ofu.model.clock import Clock
from otel_ofu.model.log_once import LogOnce
from otel_ofu.receive import OtlpReceiver
from otel_ofu.store import FleetState, JobTimeSums, Store

log = logging.getLogger(__name__)


def follower(config: Config, clock: Clock) -> Follower | None:
    """The follower of the logs in the config."""
    return build_follower(config.mfu.logs, clock) if config.mfu.logs else None


def job_settings(jobs: Jobs) -> JobFigureSettings:
    """What the GPU time of jobs is held against, and how long a gateway waits for data."""
    return JobFigureSettings(
        float(jobs.target_ofu), float(jobs.idle_below), float(jobs.allowed_lateness)
    )


class JobReports:
    """The newest figures of each job. `poll` has a thread of its own; the rest the sampler's."""

    def __init__(self, logs: Follower | None, receiver: OtlpReceiver | None, clock: Clock) -> None:
        self._logs = logs
        self._receiver = receiver
        self._clock = clock
        self._lock = threading.Lock()
        self._reports: list[JobReport] = []
        self._figures = ReportedFigures()
        self._once = LogOnce(log, "log ")

    def poll(self, now_s: float) -> None:
        """Reads the logs, which can take long where a file server is away."""
        if self._logs is None:
            return
        reports = self._logs.poll(now_s)
        with self._lock:
            self._reports += reports
        for source, problem in self._logs.problems().items():
            self._once.log(f"{source}: {problem}")

    def take(self, jobs: Sequence[str]) -> tuple[list[Observation], list[Observation]]:
        """What came since the last call: from logs, and pushed.

        `jobs` are those that run here: a log that names no job belongs to the only one.
        """
        with self._lock:
            reports, self._reports = self._reports, []
        only = jobs[0] if len(jobs) == 1 else ""
        observed = (_observation(report, report.job or only) for report in reports)
        logged = [self._remembered(o, o.window.end_s) for o in observed if o]
        pushed = list(self._receiver.take_pushed()) if self._receiver else []
        for observation in pushed:
            self._remembered(observation, self._clock.now_s())
        return logged, pushed

    def figures(self, now_s: float) -> Mapping[str, Mapping[str, float]]:
        """By job, what it reports, until the next report of a figure is due."""
        return self._figures.at(now_s)

    def counts(self) -> dict[str, int]:
        """What became of the logs, by outcome."""
        return asdict(self._logs.counts) if self._logs else {}

    def close(self) -> None:
        if self._logs is not None:
            self._logs.close()

    def _remembered(self, seen: Observation, time_s: float) -> Observation:
        """The observation over the time that it speaks about, without what is too much."""
        job = str(seen.entity.attributes.get("ofu.job.id", seen.entity.id))
        starts_s = {k: self._figures.add(job, k, v, time_s) for k, v in seen.values.items()}
        taken = {k: start_s for k, start_s in starts_s.items() if start_s is not None}
        window = Window(min(taken.values(), default=time_s), time_s)
        return Observation(seen.entity, window, {k: seen.values[k] for k in taken}, seen.gaps)


def _observation(report: JobReport, job: str) -> Observation | None:
    """A report as an observation of its job; None when its job is not known."""
    if not job:
        return None
    entity = Entity("job", job, {"ofu.job.id": job})
    return Observation(entity, Window(report.time_s, report.time_s), dict(_values(report)))


def _values(report: JobReport) -> Iterator[tuple[str, float]]:
    if report.role:
        # Over the time in which the role works: no MFU of the job, which OFU is held against.
        if report.mfu is not None:
            yield f"mfu_role:{report.role}", report.mfu
        return
    if report.tflops_per_gpu is not None:
        yield "model_flop_rate", report.tflops_per_gpu * 1e12
    for key, value in (
        ("mfu_reported", report.mfu),
        ("tokens_per_s", report.tokens_per_s),
        ("tokens_per_s_per_gpu", report.tokens_per_s_per_gpu),
        ("samples_per_s", report.samples_per_s),
        ("step_time", report.step_s),
    ):
        if value is not None:
            yield key, value


class TimeStorage:
    """Keeps the totals of jobs over a restart; called before they are exported."""

    def __init__(self, times: JobTimeSums) -> None:
        self.times = times
        self._once = LogOnce(log, "totals of jobs ")

    def save(self, now_s: float) -> None:
        """A disk that does not take them is logged once for each cause."""
        try:
            self.times.save(now_s)
        except OSError as error:
            self._once.log(f"cannot be written: {error.strerror}; they are kept in memory")


class JobCollector:
    """The jobs on this node's GPUs: their OFU from counters, their MFU from what they report."""

    def __init__(self, reports: JobReports, times: JobTimeSums | None = None) -> None:
        self._storage = TimeStorage(times or JobTimeSums())
        self._aggregator = JobAggregator(self._storage.times)
        self._reports = reports

    def collect(self, observations: Sequence[Observation], now_s: float) -> CollectedValues:
        shares = {o.entity.id: o.values[SHARE] for o in observations if SHARE in o.values}
        jobs = {str(o.entity.attributes["ofu.job.id"]) for o in observations if _has_job(o)}
        logged, pushed = self._reports.take(sorted(jobs))
        figures = self._reports.figures(now_s)
        observed = self._aggregator.aggregate(observations, shares, figures)
        observed = [_with_reported(o, figures.get(o.entity.id, {})) for o in observed]
        self._storage.save(now_s)
        known = {o.entity.id: o.entity for o in observed}
        logged = [_of(known.get(o.entity.id, o.entity), o) for o in logged]
        pushed = [_of(known.get(o.entity.id, o.entity), o) for o in pushed]
        living = [o for o in observed if o.entity.id in jobs]
        return CollectedValues([*living, *logged], [*observed, *logged, *pushed])


class FleetCollector:
    """A gateway: the jobs over all nodes that send to it."""

    def __init__(
        self, config: Config, store: Store, reports: JobReports, fleet: FleetState
    ) -> None:
        self._jobs = FleetJobs(store, job_settings(config.jobs), fleet)
        self._storage = TimeStorage(fleet.times)
        self._reports = reports

    def collect(self, observations: Sequence[Observation], now_s: float) -> CollectedValues:  # noqa: ARG002
        logged, pushed = self._reports.take(())
        observed = self._jobs.tick(now_s)
        self._storage.save(now_s)  # no less than what is exported, which must never fall
        # For the rules alone: what came here goes on as it came.
        figures = self._reports.figures(now_s)
        living = [o for o in observed if o.entity.kind != "job" or o.entity.id in self._jobs.held]
        standing = [
            _with_reported(o, figures.get(o.entity.id, {})) if "job_coverage" in o.values else o
            for o in living
        ]
        return CollectedValues([*standing, *logged], [*observed, *logged, *pushed])


def _with_reported(job: Observation, figures: Mapping[str, float]) -> Observation:
    """A report stands until the next one is due; what was computed is not replaced."""
    return replace(job, values={**figures, **job.values}) if figures else job


def _has_job(observation: Observation) -> bool:
    return observation.entity.kind == "gpu" and "ofu.job.id" in observation.entity.attributes


def _of(entity: Entity, observation: Observation) -> Observation:
    """The observation under the entity that the job has already, so that both are one resource."""
    return Observation(entity, observation.window, observation.values, observation.gaps)
