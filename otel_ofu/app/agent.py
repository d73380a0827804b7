"""The agent as it runs: rounds, rules, exporters, until it has to stop.

Enters: a config and a chosen source. Leaves: telemetry. Stops within its deadline even while a
driver call hangs.
"""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from otel_ofu.app.job_reports import JobReports, follower
from otel_ofu.app.node import work
from otel_ofu.app.pipeline import TICK_S, Pipeline
from otel_ofu.app.prepare import PreparedConfig
from otel_ofu.app.scheduler import Scheduler
from otel_ofu.app.sources import ChosenSource
from otel_ofu.model.clock import Clock, SystemClock
from otel_ofu.model.errors import ConfigError, Problem
from otel_ofu.receive import Buffer, OtlpReceiver
from otel_ofu.store import FleetState, Store

log = logging.getLogger(__name__)

WARM_UP_S = 1.0
"""After the first round, which has no windows yet, comes a second after so long."""
POLL_S = 2.0
"""Starting value: how often rule files are polled."""
CLOSE_SOURCE_S = 1.0
EVENTS_S = 1.0
"""Starting value: how often XIDs are emitted between two rounds."""


def receiver(prepared: PreparedConfig, store: Store, fleet: FleetState) -> OtlpReceiver | None:
    """Listens from now on. ConfigError for an address or a file that cannot be used."""
    settings = prepared.config.receivers.otlp
    if not settings.listens:
        return None
    try:
        return OtlpReceiver(settings, Buffer(store, fleet), names=prepared.names)
    except ValueError as error:
        raise ConfigError([Problem("receivers.otlp", 0, 0, str(error))]) from error


class Agent:
    """`start` returns at once; `stop` waits for what is unsent, at most its deadline."""

    def __init__(self, prepared: PreparedConfig, chosen: ChosenSource, pipeline: Pipeline) -> None:
        self._config = config = prepared.config
        self._pipeline = pipeline
        self._clock: Clock = SystemClock()
        if chosen.name == "none":
            pipeline.fleet = FleetState.open(pipeline.state_dir)
        rules, fleet = pipeline.rules, pipeline.fleet
        self._receiver = receiver(prepared, rules.store, fleet) if rules else None
        self._job_reports = JobReports(follower(config, self._clock), self._receiver, self._clock)
        self._work = work(prepared, chosen, pipeline, self._job_reports, self._clock)
        pipeline.telemetry.meter.watch("logs", self._job_reports.counts)
        if self._receiver is not None:
            taken = self._receiver
            pipeline.telemetry.meter.watch("receiver", lambda: taken.counts.points)
        self.reload_requested = threading.Event()
        self._scheduler = self._scheduled()

    @property
    def endpoints(self) -> list[str]:
        """Where it listens for OTLP."""
        return list(self._receiver.addresses) if self._receiver else []

    def _scheduled(self) -> Scheduler:
        config, pipeline, scheduler = self._config, self._pipeline, Scheduler()
        scheduler.every("sampler", float(config.receivers.gpu.interval), self._work.tick)
        scheduler.every("gpu-events", EVENTS_S, self._work.poll_events)
        own = pipeline.telemetry.export_own
        scheduler.every("agent-metrics", float(config.agent.metrics_interval), lambda _now: own())
        scheduler.every("route", TICK_S, pipeline.routing.tick)
        if config.mfu.logs:
            scheduler.every("job-logs", float(config.mfu.interval), self._job_reports.poll)
        if pipeline.rules is not None:
            scheduler.every("rules", pipeline.rules.interval_s, pipeline.judge)
            scheduler.every("rule-files", POLL_S, self._poll_rules)
        return scheduler

    def start(self, stopped: threading.Event) -> None:
        """The first two rounds at once, so that numbers are there within seconds; then aligned."""
        self._pipeline.start()
        if self._receiver is not None:
            self._receiver.start()
        self._work.tick(self._clock.now_s())
        if float(self._config.receivers.gpu.interval) > WARM_UP_S and not stopped.wait(WARM_UP_S):
            self._work.tick(self._clock.now_s())
        if not stopped.is_set():
            self._scheduler.start()

    def stop(self) -> None:
        self._scheduler.stop()
        self._work.close(CLOSE_SOURCE_S)
        self._job_reports.close()
        if self._receiver is not None:
            self._receiver.close()
        left_s = float(self._config.agent.shutdown_deadline) - CLOSE_SOURCE_S
        self._pipeline.close(max(0.5, left_s))

    def _poll_rules(self, _now_s: float) -> None:
        """Reloads after SIGHUP and after a change of a file; a bad file leaves all as it is."""
        rules = self._pipeline.rules
        if rules is None:
            return
        if self.reload_requested.is_set():
            self.reload_requested.clear()
            done = rules.reload()
        else:
            done = rules.poll()
        if done:
            self._scheduler.every("rules", rules.interval_s, self._pipeline.judge)


@contextmanager
def stop_signals() -> Iterator[threading.Event]:
    """An event that SIGINT and SIGTERM set; a second signal ends the process at once."""
    stopped = threading.Event()

    def stop(number: int, _frame: FrameType | None) -> None:
        if stopped.is_set():
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)
        stopped.set()

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stopped
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def run_until(stopped: threading.Event, agent: Agent, limit_s: float | None) -> None:
    """Runs until the event is set or `limit_s` seconds are over. SIGHUP reloads the rules."""
    before = signal.signal(signal.SIGHUP, lambda _number, _frame: agent.reload_requested.set())
    try:
        agent.start(stopped)
        stopped.wait(limit_s)
    finally:
        signal.signal(signal.SIGHUP, before)
        agent.stop()
