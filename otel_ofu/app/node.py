"""What an agent does each interval: read the GPUs of a node, or those of a fleet.

Enters: the scheduled instant. Leaves: a round in the pipeline.
"""

from __future__ import annotations

from typing import Protocol

from msgspec.structs import replace

from otel_ofu.app.collectors import FlagCollector, GpuProcesses, collectors
from otel_ofu.app.job_reports import FleetCollector, JobCollector, JobReports
from otel_ofu.app.owners import DriverProcesses, job_finder
from otel_ofu.app.pipeline import Pipeline
from otel_ofu.app.prepare import PreparedConfig, deriver
from otel_ofu.app.sampler import EventSource, Sampler
from otel_ofu.app.source_selector import SourceSelector
from otel_ofu.app.sources import ChosenSource
from otel_ofu.config import Config
from otel_ofu.model.clock import Clock
from otel_ofu.store import JobTimeSums, Store

BUDGET = 0.8
"""The share of an interval that a round waits for its source."""


class RoundWorker(Protocol):
    """One round an interval. `close` waits no longer than its deadline.

    `poll_events` emits what does not wait for a round; another thread calls it.
    """

    def tick(self, now_s: float) -> None: ...

    def poll_events(self, now_s: float) -> None: ...

    def close(self, deadline_s: float) -> None: ...


class NodeWorker:
    """Reads one source; finds the owners of the GPUs, the flags of processes, the node's load."""

    def __init__(
        self,
        prepared: PreparedConfig,
        chosen: ChosenSource,
        pipeline: Pipeline,
        reports: JobReports,
        clock: Clock,
    ) -> None:
        config, host = prepared.config, pipeline.host
        selector = SourceSelector(chosen.options, clock)
        derived = deriver(
            config.receivers.gpu,
            host,
            known=prepared.skus,
            node_name=host if chosen.name == "demo" else "",
        )
        self._sampler = Sampler(
            selector,
            derived,
            pipeline.take,
            budget_s=BUDGET * float(config.receivers.gpu.interval),
            meter=pipeline.telemetry.meter,
        )
        self._sampler.events = EventSource(selector.events, derived.events, pipeline.take_events)
        if chosen.name == "demo":
            config = _without_processes(config)
        self._holders = DriverProcesses(config.receivers.gpu.nvml.library, clock)
        gpu_processes = GpuProcesses(self._holders.processes)
        found = collectors(config.evidence, prepared.flags, host, gpu_processes, clock)
        for collector in found:
            if isinstance(collector, FlagCollector):
                pipeline.telemetry.meter.watch("flags", collector.counts)
        pipeline.collectors += found
        times = JobTimeSums(pipeline.state_dir / "job-time.bin" if pipeline.state_dir else None)
        pipeline.collectors.append(JobCollector(reports, times))
        self._finder = job_finder(
            config, gpu_processes.processes, self._sampler.devices, self._sampler.source_owners
        )
        if self._finder is not None:
            finder = self._finder
            self._sampler.owners = finder.owners
            pipeline.telemetry.meter.watch("jobs", lambda: finder.report().counts)

    def tick(self, now_s: float) -> None:
        self._sampler.tick(now_s)

    def poll_events(self, now_s: float) -> None:
        self._sampler.poll_events(now_s)

    def close(self, deadline_s: float) -> None:
        self._sampler.close(deadline_s)
        if self._finder is not None:
            self._finder.close()
        self._holders.close()


def _without_processes(config: Config) -> Config:
    """No process holds a simulated GPU."""
    flags = replace(config.evidence.flags, enabled=False)
    evidence = replace(config.evidence, flags=flags)
    return replace(config, jobs=replace(config.jobs, enabled=False), evidence=evidence)


class GatewayWorker:
    """Has no GPUs: other agents send theirs, and the jobs over all of them are made here."""

    def __init__(
        self, config: Config, pipeline: Pipeline, store: Store, reports: JobReports
    ) -> None:
        self._pipeline = pipeline
        pipeline.collectors.append(FleetCollector(config, store, reports, pipeline.fleet))

    def tick(self, now_s: float) -> None:  # noqa: ARG002 - the pipeline has a clock
        self._pipeline.take(())

    def poll_events(self, now_s: float) -> None:
        """What is received is in the history at once."""

    def close(self, deadline_s: float) -> None:
        """Nothing is held."""


def work(
    prepared: PreparedConfig,
    chosen: ChosenSource,
    pipeline: Pipeline,
    reports: JobReports,
    clock: Clock,
) -> RoundWorker:
    """A node's work, or a gateway's where no source is configured."""
    if chosen.name == "none" and pipeline.rules is not None:
        return GatewayWorker(prepared.config, pipeline, pipeline.rules.store, reports)
    return NodeWorker(prepared, chosen, pipeline, reports, clock)
