"""Work that may hang, done now and then in a thread of its own.

Enters: what to do, the instant of each call. Leaves: the work done or under way; whoever calls
waits for it a bounded time, and goes on with what is known.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

STALE_AFTER_INTERVALS = 4
"""After so many intervals a result is too old to report, and work that still runs hangs. Starting
value: one late or failed run changes nothing yet."""
_ROUNDING_S = 1e-3
"""Of ticks: a call that comes a millisecond early is on time."""


class Worker:
    """`run` is called by one thread at a time. `work` gets the instant and has to catch its errors.

    `interval_s`: from one beginning to the next. `budget_s`: the longest that a call of `run`
    waits. Work that still runs is not begun twice, but with `on_hang`: that is called when it has
    run for `STALE_AFTER_INTERVALS`, and then the work is begun in another thread. The old one is
    left alone, and while it hangs no other is left.
    """

    def __init__(
        self,
        name: str,
        work: Callable[[float], None],
        *,
        interval_s: float,
        budget_s: float,
        on_hang: Callable[[], None] | None = None,
    ) -> None:
        self._name = name
        self._work = work
        self._interval_s = interval_s
        self._budget_s = budget_s
        self._thread: threading.Thread | None = None
        self._begun_s: float | None = None
        self._on_hang = on_hang
        self._left: threading.Thread | None = None

    @property
    def hangs(self) -> bool:
        """Whether a thread that was left has not ended yet."""
        return self._left is not None and self._left.is_alive()

    def run(self, now_s: float) -> None:
        """Begins the work if it is due. `now_s`: the instant in Unix seconds."""
        if self._is_due(now_s) or self._leaves(now_s):
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
        """Whether what was found out at `found_s` is too old to report, or of a clock set back."""
        return abs(now_s - found_s) > STALE_AFTER_INTERVALS * self._interval_s

    def _leaves(self, now_s: float) -> bool:
        """Leaves the thread that runs, if it hangs."""
        begun_s = self._begun_s
        if self._on_hang is None or begun_s is None or self.hangs:
            return False
        if not self.is_stale(begun_s, now_s):
            return False
        self._left = self._thread
        self._on_hang()
        return True

    def _is_due(self, now_s: float) -> bool:
        if self._thread is not None and self._thread.is_alive():
            return False
        begun_s = self._begun_s
        if begun_s is None or now_s < begun_s:  # the clock was set back
            return True
        return now_s - begun_s >= self._interval_s - _ROUNDING_S
