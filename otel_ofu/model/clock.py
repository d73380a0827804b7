"""Time as a parameter: the real clock, and one that a test or a replay moves."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Wall time in Unix seconds, and a monotonic time in seconds for durations."""

    def now_s(self) -> float: ...

    def monotonic_s(self) -> float: ...


class SystemClock:
    """The machine's clocks."""

    def now_s(self) -> float:
        return time.time()

    def monotonic_s(self) -> float:
        return time.monotonic()


class VirtualClock:
    """A clock that stands still until `advance` or `set`; both times move together."""

    def __init__(self, now_s: float = 0.0) -> None:
        self._now_s = now_s
        self._monotonic_s = 0.0

    def now_s(self) -> float:
        return self._now_s

    def monotonic_s(self) -> float:
        return self._monotonic_s

    def advance(self, seconds: float) -> None:
        self._now_s += seconds
        self._monotonic_s += max(0.0, seconds)

    def set(self, now_s: float) -> None:
        self.advance(now_s - self._now_s)
