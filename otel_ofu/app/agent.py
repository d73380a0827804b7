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

from otel_ofu.app.deriving import deriver
from otel_ofu.app.telemetry import Telemetry
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
CLOSE_SOURCE_S = 1.0


class Agent:
    """`start` returns at once; `stop` waits for what is unsent, at most its deadline."""

    def __init__(
        self, config: Config, name: str, factory: Factory, telemetry: Telemetry, host: str
    ) -> None:
        interval_s = float(config.receivers.gpu.interval)
        self._config = config
        self._telemetry = telemetry
        self._sampler = Sampler(
            ThreadReader(name, factory, SystemClock()),
            deriver(config.receivers.gpu, host),
            telemetry.export,
            budget_s=BUDGET * interval_s,
            meter=telemetry.meter,
        )
        self._scheduler = Scheduler()
        self._scheduler.every("sampler", interval_s, self._sampler.tick)
        self._scheduler.every(
            "agent-metrics",
            float(config.agent.metrics_interval),
            lambda _now: telemetry.export_own(),
        )
        self._clock: Clock = SystemClock()

    def start(self, stopped: threading.Event) -> None:
        """The first two rounds at once, so that numbers are there within seconds; then aligned."""
        self._telemetry.start()
        self._sampler.tick(self._clock.now_s())
        if float(self._config.receivers.gpu.interval) > WARM_UP_S and not stopped.wait(WARM_UP_S):
            self._sampler.tick(self._clock.now_s())
        if not stopped.is_set():
            self._scheduler.start()

    def stop(self) -> None:
        self._scheduler.stop()
        self._sampler.close(CLOSE_SOURCE_S)
        left_s = float(self._config.agent.shutdown_deadline) - CLOSE_SOURCE_S
        self._telemetry.close(max(0.5, left_s))


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
    """Runs until the event is set or `limit_s` seconds are over."""
    try:
        agent.start(stopped)
        stopped.wait(limit_s)
    finally:
        agent.stop()
