"""Work that may hang, done now and then in a thread of its own.

Enters: what to do, the instant of each call. Leaves: the work done or under way; whoever calls
waits for it a bounded time, and goes on with what is known.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

STALE_AFTER = 4
"""Intervals after which what could not be found out again is not told any more."""
_ROUNDING_S = 1e-3


class Background:
    """`turn` is for one thread at a time. `work` gets the instant and has to catch its errors.

    `interval_s`: from one beginning to the next; work that still runs is never begun twice.
    `budget_s`: the longest that a call of `turn` waits.
    """

    def __init__(
        self, name: str, work: Callable[[float], None], *, interval_s: float, budget_s: float
    ) -> None:
        self._name = name
        self._work = work
        self._interval_s = interval_s
        self._budget_s = budget_s
        self._thread: threading.Thread | None = None
        self._begun_s: float | None = None

    def turn(self, now_s: float) -> None:
        """Begins the work if it is due. `now_s`: the instant in Unix seconds."""
        if self._is_due(now_s):
            self._begun_s = now_s
            self._thread = threading.Thread(
                target=self._work, args=(now_s,), name=self._name, daemon=True
            )
            self._thread.start()
            self._thread.join(self._budget_s)

    def wait(self, longest_s: float) -> None:
        """Until the work that is under way has ended, if any is."""
        if self._thread is not None:
            self._thread.join(longest_s)

    def is_stale(self, found_s: float, now_s: float) -> bool:
        """Whether what was found out at `found_s` is too old to be told, or of a clock set back."""
        return abs(now_s - found_s) > STALE_AFTER * self._interval_s

    def _is_due(self, now_s: float) -> bool:
        if self._thread is not None and self._thread.is_alive():
            return False
        begun_s = self._begun_s
        if begun_s is None or now_s < begun_s:  # the clock was set back
            return True
        return now_s - begun_s >= self._interval_s - _ROUNDING_S
