"""APScheduler behind one small adapter: aligned ticks, one thread each, alive after clock jumps.

Enters: named ticks with an interval. Leaves: calls `tick(scheduled instant in Unix seconds)`.
"""

from __future__ import annotations

import logging
import math
import queue
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from otel_ofu.model.clock import Clock, SystemClock
from otel_ofu.model.log_once import LogOnce

log = logging.getLogger(__name__)

Tick = Callable[[float], None]
Outcome = Callable[[str, str], None]
"""Called with (name of the tick, `skipped` or `failed`)."""

_WATCH_S = 1.0


class _Worker:
    """Runs one round at a time on a thread that the interpreter does not wait for when it ends."""

    def __init__(self, name: str) -> None:
        self._due: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._idle = threading.Semaphore()
        self._thread = threading.Thread(target=self._work, name=f"tick-{name}", daemon=True)

    def start(self, run: Callable[[], None]) -> bool:
        """False if the last one still runs."""
        if not self._idle.acquire(blocking=False):
            return False
        if self._thread.ident is None:
            self._thread.start()
        self._due.put(run)
        return True

    def stop(self) -> None:
        self._due.put(None)

    def _work(self) -> None:
        while (run := self._due.get()) is not None:
            try:
                run()
            finally:
                self._idle.release()


def next_aligned_s(after_s: float, interval_s: float) -> float:
    """The first multiple of the interval that is later than `after_s`."""
    return (math.floor(after_s / interval_s + 1e-9) + 1) * interval_s


class Scheduler:
    """Calls every tick at multiples of its interval (UTC), never two calls of one tick at once.

    A round that is late runs once and stands for all that it missed.
    """

    def __init__(self, *, clock: Clock | None = None, outcome: Outcome | None = None) -> None:
        self._clock = clock or SystemClock()
        self._outcome = outcome or (lambda _name, _outcome: None)
        self._ticks: dict[str, tuple[float, Tick]] = {}
        self._scheduler: Any = None
        self._stopped = threading.Event()
        self._watch: threading.Thread | None = None
        self._workers: dict[str, _Worker] = {}
        self._once = LogOnce(log, level=logging.ERROR)

    def every(self, name: str, interval_s: float, tick: Tick) -> None:
        """Registers a tick; one of that name after `start` gets another interval."""
        self._ticks[name] = (interval_s, tick)
        if self._scheduler is not None:
            self._add(name)

    def start(self) -> None:
        from apscheduler.executors.debug import DebugExecutor  # noqa: PLC0415 - not for `--help`
        from apscheduler.schedulers.background import BackgroundScheduler  # noqa: PLC0415

        logging.getLogger("apscheduler").setLevel(logging.CRITICAL)  # `outcome` reports instead
        # Its pools are joined at exit: a tick that hangs (a dead file server) would keep the
        # process alive after it had to end. So it only starts ticks, on our threads.
        self._scheduler = BackgroundScheduler(timezone=UTC, executors={"default": DebugExecutor()})
        for name in self._ticks:
            self._add(name)
        self._scheduler.start()
        self._watch = threading.Thread(target=self._watch_clock, name="clock-watch", daemon=True)
        self._watch.start()

    def stop(self) -> None:
        """No tick begins any more; one that runs is not waited for."""
        self._stopped.set()
        if self._scheduler is not None:
            self._scheduler.shutdown(wait=False)
        if self._watch is not None:
            self._watch.join(2 * _WATCH_S)
        for worker in self._workers.values():
            worker.stop()

    def _add(self, name: str) -> None:
        interval_s, tick = self._ticks[name]
        worker = self._workers.setdefault(name, _Worker(name))

        def run() -> None:
            try:
                tick(math.floor(self._clock.now_s() / interval_s + 1e-9) * interval_s)
            except Exception as error:  # noqa: BLE001 - the next round may succeed
                self._once.log(f"{name}: {type(error).__name__}: {error}")
                self._outcome(name, "failed")

        def start() -> None:
            if not worker.start(run):
                self._outcome(name, "skipped")

        self._scheduler.add_job(
            start,
            trigger=_aligned(interval_s),
            id=name,
            coalesce=True,
            max_instances=1,
            misfire_grace_time=None,
            replace_existing=True,
        )

    def _watch_clock(self) -> None:
        """Makes new appointments when the wall clock was set: APScheduler keeps to the old ones."""
        drift_s = self._drift_s()
        while not self._stopped.wait(_WATCH_S):
            jump_s = self._drift_s() - drift_s
            if abs(jump_s) > 2 * _WATCH_S:
                log.warning("the clock was set by %+.1f s: rounds are aligned again", jump_s)
                drift_s += jump_s
                for name in self._ticks:
                    self._add(name)

    def _drift_s(self) -> float:
        return self._clock.now_s() - self._clock.monotonic_s()


def _aligned(interval_s: float) -> Any:  # noqa: ANN401 - APScheduler has no types
    """A trigger that never lists the instants it missed, however far the clock jumped."""
    from apscheduler.triggers.base import BaseTrigger  # noqa: PLC0415

    class Aligned(BaseTrigger):  # type: ignore[misc]
        def get_next_fire_time(self, previous: datetime | None, now: datetime) -> datetime:
            after_s = max(now.timestamp(), previous.timestamp() if previous else 0.0)
            epoch = datetime(1970, 1, 1, tzinfo=UTC)
            return epoch + timedelta(seconds=next_aligned_s(after_s, interval_s))

    return Aligned()
