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
from otel_ofu.model.log_once import Once

log = logging.getLogger(__name__)

Tick = Callable[[float], None]
Outcome = Callable[[str, str], None]
"""Called with (name of the tick, `skipped` or `failed`)."""

_WATCH_S = 1.0


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
        self._once = Once(log, level=logging.ERROR)

    def every(self, name: str, interval_s: float, tick: Tick) -> None:
        """Registers a tick; one of that name after `start` gets another interval."""
        self._ticks[name] = (interval_s, tick)
        if self._scheduler is not None:
            self._add(name)

    def start(self) -> None:
        from apscheduler.events import EVENT_JOB_ERROR, EVENT_JOB_MAX_INSTANCES  # noqa: PLC0415
        from apscheduler.schedulers.background import BackgroundScheduler  # noqa: PLC0415

        logging.getLogger("apscheduler").setLevel(logging.CRITICAL)  # told by `outcome` instead
        self._scheduler = BackgroundScheduler(
            timezone=UTC, executors={name: _daemon(name) for name in self._ticks}
        )
        self._scheduler.add_listener(self._told, EVENT_JOB_ERROR | EVENT_JOB_MAX_INSTANCES)
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

    def _add(self, name: str) -> None:
        interval_s, tick = self._ticks[name]
        self._scheduler.add_job(
            lambda: tick(math.floor(self._clock.now_s() / interval_s + 1e-9) * interval_s),
            trigger=_aligned(interval_s),
            id=name,
            executor=name,
            coalesce=True,
            max_instances=1,
            misfire_grace_time=None,
            replace_existing=True,
        )

    def _told(self, event: Any) -> None:  # noqa: ANN401 - APScheduler has no types
        failure = getattr(event, "exception", None)
        if failure is not None:
            self._once.tell(f"{event.job_id}: {type(failure).__name__}: {failure}")
        self._outcome(event.job_id, "failed" if failure is not None else "skipped")

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


def _daemon(name: str) -> Any:  # noqa: ANN401 - APScheduler has no types
    """An executor with one thread, which the interpreter does not wait for when it ends.

    The pools of APScheduler are joined at exit: a tick that hangs (a dead file server) would keep
    the process alive after it was told to end.
    """
    from apscheduler.executors.base import BaseExecutor, run_job  # noqa: PLC0415

    class Daemon(BaseExecutor):  # type: ignore[misc]
        def start(self, scheduler: Any, alias: str) -> None:  # noqa: ANN401
            super().start(scheduler, alias)
            self._rounds: queue.SimpleQueue[tuple[Any, list[datetime]] | None]
            self._rounds = queue.SimpleQueue()
            threading.Thread(target=self._work, name=f"tick-{name}", daemon=True).start()

        def shutdown(self, wait: bool = True) -> None:  # noqa: ARG002, FBT001, FBT002 - its signature
            self._rounds.put(None)

        def _do_submit_job(self, job: Any, run_times: list[datetime]) -> None:  # noqa: ANN401
            self._rounds.put((job, run_times))

        def _work(self) -> None:
            while (due := self._rounds.get()) is not None:
                job, run_times = due
                events = run_job(job, job._jobstore_alias, run_times, self._logger.name)  # noqa: SLF001
                self._run_job_success(job.id, events)

    return Daemon()
