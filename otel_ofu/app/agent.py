"""The agent as it runs: one source, one sampler, all exporters, until it is told to stop.

Enters: a config and a chosen source. Leaves: an exit status. Stops within its deadline even while a
driver call hangs.
"""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from otel_ofu.app.additions import Processing, additions
from otel_ofu.app.deriving import deriver
from otel_ofu.app.owners import Holders, job_finder
from otel_ofu.app.pipeline import Pipeline
from otel_ofu.clock import Clock, SystemClock
from otel_ofu.config import Config
from otel_ofu.sampler import Sampler, ThreadReader
from otel_ofu.sampler.reader import Factory
from otel_ofu.schedule import Scheduler

log = logging.getLogger(__name__)

BUDGET = 0.8
"""The share of an interval that a round waits for its source."""
WARM_UP_S = 1.0
"""After the first round, which has no windows yet, comes a second after so long."""
LOOK_S = 2.0
"""How often rule files are looked at."""
CLOSE_SOURCE_S = 1.0


class Agent:
    """`start` returns at once; `stop` waits for what is unsent, at most its deadline."""

    def __init__(
        self, config: Config, name: str, factory: Factory, pipeline: Pipeline, host: str
    ) -> None:
        interval_s = float(config.receivers.gpu.interval)
        self._config = config
        self._pipeline = pipeline
        self._clock: Clock = SystemClock()
        self._sampler = Sampler(
            ThreadReader(name, factory, self._clock),
            deriver(config.receivers.gpu, host),
            pipeline.take,
            budget_s=BUDGET * interval_s,
            meter=pipeline.telemetry.meter,
        )
        self._holders = Holders(config.receivers.gpu.nvml.library, self._clock)
        processing, sampler = Processing(self._holders.processes), self._sampler
        pipeline.additions += additions(config, host, processing, self._clock)
        self._finder = job_finder(
            config, processing.processes, sampler.devices, sampler.source_owners
        )
        if self._finder is not None:
            sampler.owners = self._finder.owners
        self._scheduler = Scheduler()
        self._scheduler.every("sampler", interval_s, self._sampler.tick)
        self._scheduler.every(
            "agent-metrics",
            float(config.agent.metrics_interval),
            lambda _now: pipeline.telemetry.export_own(),
        )
        self.reload_asked = threading.Event()
        if pipeline.rules is not None:
            self._scheduler.every("rules", pipeline.rules.interval_s, pipeline.judge)
            self._scheduler.every("rule-files", LOOK_S, self._look_at_rules)

    def start(self, stopped: threading.Event) -> None:
        """The first two rounds at once, so that numbers are there within seconds; then aligned."""
        self._pipeline.telemetry.start()
        self._sampler.tick(self._clock.now_s())
        if float(self._config.receivers.gpu.interval) > WARM_UP_S and not stopped.wait(WARM_UP_S):
            self._sampler.tick(self._clock.now_s())
        if not stopped.is_set():
            self._scheduler.start()

    def stop(self) -> None:
        self._scheduler.stop()
        self._sampler.close(CLOSE_SOURCE_S)
        if self._finder is not None:
            self._finder.close()
        self._holders.close()
        left_s = float(self._config.agent.shutdown_deadline) - CLOSE_SOURCE_S
        self._pipeline.close(max(0.5, left_s))

    def _look_at_rules(self, _now_s: float) -> None:
        """Reloads after SIGHUP and after a change of a file; a bad file leaves all as it is."""
        rules = self._pipeline.rules
        if rules is None:
            return
        if self.reload_asked.is_set():
            self.reload_asked.clear()
            done = rules.reload()
        else:
            done = rules.look()
        if done:
            self._scheduler.every("rules", rules.interval_s, self._pipeline.judge)


@contextmanager
def stop_signals() -> Iterator[threading.Event]:
    """An event that SIGINT and SIGTERM set; a second signal ends the process at once."""
    stopped = threading.Event()

    def told(number: int, _frame: FrameType | None) -> None:
        if stopped.is_set():
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)
        stopped.set()

    before = {number: signal.signal(number, told) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stopped
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def run_until(stopped: threading.Event, agent: Agent, limit_s: float | None) -> None:
    """Runs until the event is set or `limit_s` seconds are over. SIGHUP reloads the rules."""
    before = signal.signal(signal.SIGHUP, lambda _number, _frame: agent.reload_asked.set())
    try:
        agent.start(stopped)
        stopped.wait(limit_s)
    finally:
        signal.signal(signal.SIGHUP, before)
        agent.stop()
