"""Asks one source, whatever it does: answers, fails, dies or hangs.

Enters: a factory of a source, and instants. Leaves: a `ReadResult` within the budget, always.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, Protocol

from otel_ofu.model import Reading, Trouble
from otel_ofu.model.clock import Clock
from otel_ofu.model.errors import SourceError, SourceUnavailable
from otel_ofu.sources import Source, costs_of, events_of, targets_of, troubles_of

Factory = Callable[[], Source]
ReadFailure = Literal["", "failed", "late", "unavailable"]

REBUILD_AFTER = 3
"""Failed rounds in a row after which a source is closed and opened anew."""
REBUILD_AFTER_S = 30.0
"""And the time since the first of them: a client process under a CPU limit of 100m needs 5 s to
start, and would never come up if it was ended before. Starting value."""
FIRST_BACKOFF_S = 1.0  # starting value
LONGEST_BACKOFF_S = 60.0  # starting value


@dataclass(frozen=True, slots=True)
class ReadResult:
    """What came of asking: readings, or a failure and the source's message.

    `troubles` are what failed of a part of it, beside the readings; `targets` whether each thing
    that it reads from answered, empty where that is not known. `seconds` is the time that the call
    took, `costs` what the source costs beside it. `source` is the name of the source that was read.
    """

    readings: Sequence[Reading] = ()
    failure: ReadFailure = ""
    message: str = ""
    seconds: float = 0.0
    troubles: Sequence[Trouble] = ()
    targets: Mapping[str, bool] = field(default_factory=dict)
    source: str = ""
    costs: Mapping[str, float] = field(default_factory=dict)


class SourceReader(Protocol):
    """Reads one source or several within a budget; each device is in one result."""

    def read(self, now_s: float, budget_s: float) -> Sequence[ReadResult]: ...

    def close(self, deadline_s: float) -> None: ...


class SourceConnection:
    """Opens a source, closes it when it died, and opens it again with backoff.

    Belongs to one thread. Never raises because of the source.
    """

    def __init__(self, factory: Factory, clock: Clock) -> None:
        self._factory = factory
        self._clock = clock
        self._source: Source | None = None
        self._failures = 0
        self._failing_since_s = 0.0
        self._backoff_s = FIRST_BACKOFF_S
        self._open_again_s = 0.0
        self._message = ""

    def read(self, now_s: float) -> ReadResult:
        started_s = self._clock.monotonic_s()
        if self._source is None and started_s < self._open_again_s:
            return ReadResult(failure="unavailable", message=self._message)
        try:
            source = self._opened()
            readings = source.read(now_s)
            troubles, targets = troubles_of(source), targets_of(source)
            costs = costs_of(source)
        except SourceUnavailable as error:
            return self._failed(error, started_s, rebuild=True)
        except Exception as error:  # noqa: BLE001 - a source must not end the agent
            return self._failed(error, started_s, rebuild=False)
        self._failures = 0
        self._backoff_s = FIRST_BACKOFF_S
        seconds = self._clock.monotonic_s() - started_s
        return ReadResult(
            readings, seconds=seconds, troubles=troubles, targets=targets, costs=costs
        )

    def events(self) -> Sequence[Reading]:
        """What happened since the last call. From any thread."""
        source = self._source
        try:
            return () if source is None else events_of(source)
        except Exception:  # noqa: BLE001 - its readings have them as well
            return ()

    def close(self) -> None:
        source, self._source = self._source, None
        if source is not None:
            try:
                source.close()
            except Exception as error:  # noqa: BLE001 - it is closed either way
                self._message = _message_of(error)

    def _opened(self) -> Source:
        if self._source is None:
            self._source = self._factory()
        return self._source

    def _failed(self, error: Exception, started_s: float, *, rebuild: bool) -> ReadResult:
        self._message = _message_of(error)
        now_s = self._clock.monotonic_s()
        self._failing_since_s = self._failing_since_s if self._failures else started_s
        self._failures += 1
        troubles, targets = self._reported()
        if rebuild or self._source is None or self._is_due(now_s):
            self.close()
            self._failures = 0
            self._open_again_s = now_s + self._backoff_s
            self._backoff_s = min(2 * self._backoff_s, LONGEST_BACKOFF_S)
        return ReadResult(
            failure="failed",
            message=self._message,
            seconds=now_s - started_s,
            troubles=troubles,
            targets=targets,
        )

    def _is_due(self, now_s: float) -> bool:
        lasted_s = now_s - self._failing_since_s
        return self._failures >= REBUILD_AFTER and lasted_s >= REBUILD_AFTER_S

    def _reported(self) -> tuple[Sequence[Trouble], Mapping[str, bool]]:
        """What a source that failed reports of its parts."""
        if self._source is None:
            return (), {}
        try:
            return troubles_of(self._source), targets_of(self._source)
        except Exception as error:  # noqa: BLE001 - a source must not end the agent
            return (Trouble(self._source.name, "failed", _message_of(error)),), {}


def _message_of(error: Exception) -> str:
    text = str(error).strip() or "no further message"
    return text if isinstance(error, SourceError) else f"{type(error).__name__}: {text}"


class ThreadReader:
    """Reads in a thread of its own, so that a driver call that hangs costs a round, not the agent.

    While a call hangs every round is `late`; what it brings in the end belongs to a time that has
    passed and is dropped. The thread is a daemon: it never keeps the process alive.
    """

    def __init__(self, name: str, factory: Factory, clock: Clock) -> None:
        self.name = name
        self._life = SourceConnection(factory, clock)
        self._clock = clock
        self._requests: queue.SimpleQueue[float | None] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[ReadResult] = queue.SimpleQueue()
        self._busy_since_s: float | None = None
        self._requested = False
        self._thread = threading.Thread(target=self._work, name=f"source-{name}", daemon=True)
        self._thread.start()

    @property
    def hangs(self) -> bool:
        """Whether the last call has not come back."""
        return self._busy_since_s is not None

    def read(self, now_s: float, budget_s: float) -> ReadResult:
        self.request(now_s)
        return self.result(budget_s)

    def events(self) -> Sequence[Reading]:
        """What happened since the last call, also while a call hangs. From any thread."""
        return self._life.events()

    def request(self, now_s: float) -> None:
        """Begins a call, unless one hangs."""
        self._requested = self._busy_since_s is None or self._drop_late_answer()
        if self._requested:
            self._busy_since_s = self._clock.monotonic_s()
            self._requests.put(now_s)

    def result(self, budget_s: float) -> ReadResult:
        """What the call that was requested gave within the budget."""
        if not self._requested:
            since_s = self._busy_since_s or self._clock.monotonic_s()
            return self._late(self._clock.monotonic_s() - since_s)
        try:
            answer = self._answers.get(timeout=budget_s)
        except queue.Empty:
            return self._late(budget_s)
        self._busy_since_s = None
        return replace(answer, source=self.name)

    def _late(self, waited_s: float) -> ReadResult:
        message = f"no answer for {waited_s:.1f} s"
        return ReadResult(failure="late", message=message, source=self.name)

    def close(self, deadline_s: float) -> None:
        self._requests.put(None)
        self._thread.join(deadline_s)

    def _drop_late_answer(self) -> bool:
        try:
            self._answers.get_nowait()
        except queue.Empty:
            return False
        self._busy_since_s = None
        return True

    def _work(self) -> None:
        while (now_s := self._requests.get()) is not None:
            self._answers.put(self._life.read(now_s))
        self._life.close()
