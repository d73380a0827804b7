"""What jobs report of themselves: pushed over OTLP, or read from their logs.

Enters: a receiver, a follower of logs. Leaves: job observations, and the newest figures by job.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict

from otel_ofu.app.collectors import CollectedValues
from otel_ofu.app.sampler import SHARE
from otel_ofu.config import Config, Jobs
from otel_ofu.derive.fleet_jobs import FleetJobs
from otel_ofu.derive.job_figures import JobFigureSettings
from otel_ofu.derive.jobs import JobAggregator
from otel_ofu.mfu import JobReport
from otel_ofu.mfu.logs import Follower, build_follower
from otel_ofu.model import Entity, Observation, Window
from otel_ofu.model.clock import Clock
from otel_ofu.model.log_once import LogOnce
from otel_ofu.receive import OtlpReceiver
from otel_ofu.store import Store

log = logging.getLogger(__name__)

FRESH_S = 300.0
"""A figure that is older is not about now."""
BASES = ("model_flop_rate", "mfu_reported")
"""The figures that a job's MFU is made of."""


def follower(config: Config, clock: Clock) -> Follower | None:
    """The follower of the logs in the config."""
    return build_follower(config.mfu.logs, clock) if config.mfu.logs else None


def job_settings(jobs: Jobs) -> JobFigureSettings:
    """What the GPU time of jobs is held against."""
    return JobFigureSettings(float(jobs.target_ofu), float(jobs.idle_below))


class JobReports:
    """The newest figures of each job. `poll` has a thread of its own; the rest the sampler's."""

    def __init__(self, logs: Follower | None, receiver: OtlpReceiver | None, clock: Clock) -> None:
        self._logs = logs
        self._receiver = receiver
        self._clock = clock
        self._lock = threading.Lock()
        self._reports: list[JobReport] = []
        self._newest: dict[str, dict[str, tuple[float, float]]] = {}
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
        logged = [o for report in reports if (o := _observation(report, report.job or only))]
        pushed = list(self._receiver.take_pushed()) if self._receiver else []
        for observation in [*logged, *pushed]:
            self._remember(observation)
        return logged, pushed

    def figures(self, now_s: float) -> Mapping[str, Mapping[str, float]]:
        """By job, what its MFU can be made of, as far as it is fresh."""
        self._newest = {
            job: fresh
            for job, newest in self._newest.items()
            if (fresh := {k: v for k, v in newest.items() if v[1] >= now_s - FRESH_S})
        }
        return {job: {k: v for k, (v, _) in newest.items()} for job, newest in self._newest.items()}

    def counts(self) -> dict[str, int]:
        """What became of the logs, by outcome."""
        return asdict(self._logs.counts) if self._logs else {}

    def close(self) -> None:
        if self._logs is not None:
            self._logs.close()

    def _remember(self, observation: Observation) -> None:
        job = str(observation.entity.attributes.get("ofu.job.id", observation.entity.id))
        for key in BASES:
            if key in observation.values:
                newest = observation.values[key], self._clock.now_s()
                self._newest.setdefault(job, {})[key] = newest


def _observation(report: JobReport, job: str) -> Observation | None:
    """A report as an observation of its job; None when its job is not known."""
    if not job:
        return None
    entity = Entity("job", job, {"ofu.job.id": job})
    return Observation(entity, Window(report.time_s, report.time_s), dict(_values(report)))


def _values(report: JobReport) -> Iterator[tuple[str, float]]:
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


class JobCollector:
    """The jobs on this node's GPUs: their OFU from counters, their MFU from what they report."""

    def __init__(self, config: Config, reports: JobReports) -> None:
        self._aggregator = JobAggregator(job_settings(config.jobs))
        self._reports = reports

    def collect(self, observations: Sequence[Observation], now_s: float) -> CollectedValues:
        shares = {o.entity.id: o.values[SHARE] for o in observations if SHARE in o.values}
        jobs = {str(o.entity.attributes["ofu.job.id"]) for o in observations if _has_job(o)}
        logged, pushed = self._reports.take(sorted(jobs))
        figures = self._reports.figures(now_s)
        observed = self._aggregator.aggregate(observations, shares, figures)
        known = {o.entity.id: o.entity for o in observed}
        logged = [_of(known.get(o.entity.id, o.entity), o) for o in logged]
        pushed = [_of(known.get(o.entity.id, o.entity), o) for o in pushed]
        return CollectedValues([*observed, *logged], [*observed, *logged, *pushed])


class FleetCollector:
    """A gateway: the jobs over all nodes that send to it."""

    def __init__(self, config: Config, store: Store, reports: JobReports) -> None:
        self._jobs = FleetJobs(store, job_settings(config.jobs))
        self._reports = reports

    def collect(self, observations: Sequence[Observation], now_s: float) -> CollectedValues:  # noqa: ARG002
        logged, pushed = self._reports.take(())
        observed = self._jobs.tick(now_s)
        return CollectedValues([*observed, *logged], [*observed, *logged, *pushed])


def _has_job(observation: Observation) -> bool:
    return observation.entity.kind == "gpu" and "ofu.job.id" in observation.entity.attributes


def _of(entity: Entity, observation: Observation) -> Observation:
    """The observation under the entity that the job has already, so that both are one resource."""
    return Observation(entity, observation.window, observation.values, observation.gaps)
