"""Empties one queue of the outbox into one backend, on a thread of its own.

Enters: batches. Leaves: requests, and what became of their points: counted, for the agent's metrics
as well, and logged once.
"""

from __future__ import annotations

import logging
import random
import threading
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from otel_ofu.model.clock import Clock
from otel_ofu.outbox.batch import Batch, Body, Observe, Priority
from otel_ofu.outbox.outcome import Delivered, Outcome, Refused, TooLarge, Transport, Unavailable
from otel_ofu.outbox.queues import Queue, QueueStats

_log = logging.getLogger(__name__)

# Starting value: beyond this many different messages a backend is not worth more lines.
_MOST_LINES = 50


class DeliveryCounts:
    """`sent`, `rejected`, `retries` and `dropped` (by reason) count since the start.

    `route` is what goes where, as text; each route fails and recovers by itself.
    """

    def __init__(self, exporter: str, observe: Observe) -> None:
        self._exporter = exporter
        self._observe = observe
        self._errors: dict[str, str] = {}
        self._failing: set[str] = set()
        self._logged: set[str] = set()
        self.sent = 0
        self.rejected = 0
        self.retries = 0
        self.dropped: dict[str, int] = {}

    @property
    def error(self) -> str:
        """What is wrong now; empty when the last of every route was taken whole."""
        return "; ".join(self._errors.copy().values())

    def accepted(self, points: int, rejected: int, route: str, message: str) -> None:
        """The backend took `points` but for those rejected; `message` is its reason."""
        self.sent += points - rejected
        self.rejected += rejected
        self._count("sent", points - rejected)
        self._count("rejected", rejected)
        self._errors.pop(route, None)
        if rejected or message:
            self._report(route, f"points were rejected: {message or 'no reason given'}")

    def drop(self, points: int, reason: str, route: str, message: str) -> None:
        """The points will not be sent."""
        self.dropped[reason] = self.dropped.get(reason, 0) + points
        self._count("dropped", points)
        self._report(route, f"points were dropped: {message}")

    def failed(self, points: int, route: str, message: str) -> None:
        """An attempt failed; there will be another."""
        self.retries += 1
        self._count("failed", points)
        self._failing.add(route)
        self._report(route, f"{message}; kept and tried again")

    def recovered(self, route: str) -> None:
        """The backend settled a whole batch, one way or the other."""
        if route in self._failing:
            self._failing.discard(route)
            self._logged.clear()
            _log.warning("export %s: %s: works again", self._exporter, route)

    def _count(self, outcome: str, points: int) -> None:
        if points:
            self._observe(self._exporter, outcome, points)

    def _report(self, route: str, text: str) -> None:
        line = self._errors[route] = f"{route}: {text}"
        if line not in self._logged and len(self._logged) < _MOST_LINES:
            self._logged.add(line)
            _log.warning("export %s: %s", self._exporter, line)


# Starting value: longer than any timeout that a transport may be given.
_NO_LIMIT_S = 3600.0


@dataclass(frozen=True, slots=True)
class Backoff:
    """Doubles from `first_s` to `most_s` seconds, each shortened at random by up to a half.

    Starting values.
    """

    first_s: float = 1.0
    most_s: float = 30.0

    def delay_s(self, failures: int, chance: float) -> float:
        """The wait after so many failures in a row (1, 2, ...); `chance` in [0, 1)."""
        doubled = self.first_s * 2.0 ** min(failures - 1, 32)
        return min(self.most_s, doubled) * (1.0 - chance / 2)


@dataclass(slots=True)
class _Progress:
    """Of one priority: failures in a row, the pause, and what is left of a batch in parts."""

    failures: int = 0
    not_before_s: float = 0.0
    batch_id: int = -1
    parts: list[Body] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class SenderStats:
    """Counts of points since the start, and of failed attempts; `error` is empty when all is well.

    `dropped` by reason: refused, too_large, and those of the queue.
    """

    sent: int
    rejected: int
    dropped: Mapping[str, int]
    retries: int
    queue: QueueStats
    error: str


class Sender:
    """`transports` by signal. `observe` is called with (exporter, outcome, points).

    Only the thread, or whoever calls `step` and `drain` in place of it, touches the transports.
    A backend that is away is tried again, with backoff, until the queue drops what is too old.
    Each priority has its own backoff: a backend that takes no events still gets its metrics.
    """

    def __init__(
        self,
        queue: Queue,
        transports: Mapping[str, Transport],
        clock: Clock,
        backoff: Backoff | None = None,
        observe: Observe = lambda _exporter, _outcome, _points: None,
    ) -> None:
        self._queue = queue
        self._transports = transports
        self._clock = clock
        self._backoff = backoff or Backoff()
        self._chance: Callable[[], float] = random.Random().random  # noqa: S311 - jitter only
        self._tally = DeliveryCounts(queue.exporter, observe)
        self._progress = {priority: _Progress() for priority in Priority}
        self._end_s: float | None = None
        self._thread = threading.Thread(
            target=self._run, name=f"send-{queue.exporter}", daemon=True
        )

    def start(self) -> None:
        self._thread.start()

    def stop(self, deadline_s: float) -> None:
        """Asks the thread to end within the deadline, and returns at once."""
        self._end_s = self._clock.monotonic_s() + deadline_s
        self._queue.wake()

    def shutdown(self, deadline_s: float) -> int:
        """Sends what it can within the deadline; how many bodies are left.

        Those are still there at the next start if the queue is durable, and then a backend that
        is away is not waited for. Several senders end at the same time if each got `stop` before.
        """
        self.stop(deadline_s)
        if self._thread.ident is not None:
            self._thread.join(deadline_s)
        return len(self._queue)

    def stats(self) -> SenderStats:
        tally, queue = self._tally, self._queue.stats()
        return SenderStats(
            tally.sent,
            tally.rejected,
            {**queue.dropped, **tally.dropped},
            tally.retries,
            queue,
            tally.error,
        )

    def step(self, limit_s: float = _NO_LIMIT_S) -> float | None:
        """Tries the next batch whose time has come; seconds to wait then, None for the next put.

        0 after an attempt, whatever came of it; the step that finds nothing returns the pause.
        """
        now_s = self._clock.monotonic_s()
        ready = [p for p, progress in self._progress.items() if progress.not_before_s <= now_s]
        batch = self._queue.take(ready)
        if batch is None:
            return self._pause_s(now_s) if len(self._queue) else None
        failure = self._deliver(batch, now_s + limit_s)
        return self._failed(batch, failure) if failure else self._succeeded(batch)

    def drain(self, deadline_s: float) -> None:
        """Sends all of the queue; ends at the deadline, or when a durable queue's backend fails."""
        end_s = self._clock.monotonic_s() + deadline_s
        for progress in self._progress.values():
            progress.not_before_s = 0.0
        while (left_s := end_s - self._clock.monotonic_s()) > 0:
            wait_s = self.step(left_s)
            if wait_s is None or (wait_s > 0 and self._queue.durable):
                return
            if wait_s > 0:
                self._queue.wait(min(wait_s, left_s))

    def _run(self) -> None:
        while self._end_s is None:
            wait_s = self.step()
            if wait_s is None or wait_s > 0:
                self._queue.wait(wait_s)
        self.drain(self._end_s - self._clock.monotonic_s())
        for transport in self._transports.values():
            transport.close()

    def _pause_s(self, now_s: float) -> float | None:
        waits_s = [progress.not_before_s - now_s for progress in self._progress.values()]
        return min((wait_s for wait_s in waits_s if wait_s > 0), default=None)

    def _deliver(self, batch: Batch, end_s: float) -> Unavailable | None:
        """Sends the batch, in parts if need be; the failure that leaves some of it unsent."""
        progress = self._progress[batch.priority]
        if progress.batch_id != batch.id:
            progress.batch_id, progress.parts = batch.id, [batch.body]
        while progress.parts:
            body = progress.parts[0]
            outcome = self._send(body, end_s - self._clock.monotonic_s())
            if isinstance(outcome, Unavailable):
                return outcome
            progress.parts[:1] = self._settle(body, outcome)
        return None

    def _send(self, body: Body, limit_s: float) -> Outcome:
        transport = self._transports.get(body.signal)
        if transport is None:
            return Refused(f"no endpoint for {body.signal}")
        if limit_s <= 0:
            return Unavailable("out of time at shutdown")
        try:
            return transport.send(body, limit_s)
        except zlib.error as error:
            return Refused(f"the body cannot be read: {error}")
        except OSError as error:  # a TLS file that is being replaced, no file descriptors left
            return Unavailable(error.strerror or str(error))
        except Exception as error:  # noqa: BLE001 - logged and tried again; the thread goes on
            _log.debug("export %s", self._queue.exporter, exc_info=True)
            return Unavailable(f"{type(error).__name__}: {error}")

    def _settle(self, body: Body, outcome: Delivered | Refused | TooLarge) -> tuple[Body, ...]:
        """Counts what became of a body; what is still to be sent of it."""
        route = self._route(body)
        match outcome:
            case Delivered(rejected, message):
                self._tally.accepted(body.points, min(rejected, body.points), route, message)
            case Refused(message):
                self._tally.drop(body.points, "refused", route, message)
            case TooLarge(message):
                if (parts := self._transports[body.signal].halves(body)) is not None:
                    return parts
                self._tally.drop(body.points, "too_large", route, message)
        return ()

    def _succeeded(self, batch: Batch) -> float:
        self._progress[batch.priority] = _Progress()
        self._tally.recovered(self._route(batch.body))
        self._queue.done(batch)
        return 0.0

    def _failed(self, batch: Batch, failure: Unavailable) -> float:
        """Puts the batch back; 0, so that the other priorities go at once."""
        progress = self._progress[batch.priority]
        progress.failures += 1
        points = sum(body.points for body in progress.parts)
        self._tally.failed(points, self._route(batch.body), failure.message)
        delay_s = failure.after_s or self._backoff.delay_s(progress.failures, self._chance())
        progress.not_before_s = self._clock.monotonic_s() + delay_s
        self._queue.put_back(batch)
        return 0.0

    def _route(self, body: Body) -> str:
        transport = self._transports.get(body.signal)
        return f"{body.signal} to {transport.endpoint}" if transport else body.signal
