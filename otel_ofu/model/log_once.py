"""What went wrong, logged once per cause, and counted.

Enters: a text, without what differs each time (process ids, times) and without secrets. Leaves: one
log line a cause, counts, and lines for reports.
"""

from __future__ import annotations

import logging
from collections import Counter

MAX_CAUSES = 256
"""Distinct causes that are remembered; more than that is noise of one cause. Starting value."""


class LogOnce:
    """Log lines of one kind, each of them once: `prefix` and the text. For one thread."""

    def __init__(
        self, log: logging.Logger, prefix: str = "", *, level: int = logging.WARNING
    ) -> None:
        self._log = log
        self._prefix = prefix
        self._level = level
        self._logged: set[str] = set()

    def log(self, text: str) -> None:
        if text not in self._logged and len(self._logged) < MAX_CAUSES:
            self._logged.add(text)
            self._log.log(self._level, "%s%s", self._prefix, text)


class CountedLogOnce:
    """The same for work that is done again and again. Belongs to the thread that does it."""

    def __init__(self, log: logging.Logger, prefix: str = "") -> None:
        self._now: Counter[str] = Counter()
        self._total: Counter[str] = Counter()
        self._log = log, prefix
        self._once = LogOnce(log, prefix)

    def successor(self) -> CountedLogOnce:
        """For a thread that takes over from one that hangs: counts and log lines go on."""
        made = CountedLogOnce(*self._log)
        made._total.update(self._total)
        made._once = self._once
        return made

    def begin(self) -> None:
        """The work is done anew: what was wrong the last time may be over."""
        self._now.clear()

    def note(self, kind: str, text: str) -> None:
        """`kind` is a short name for counting."""
        self._total[kind] += 1
        self._now[text] += 1
        self._once.log(text)

    def problems(self) -> tuple[str, ...]:
        """One line a cause since `begin`, as it was logged, without the prefix."""
        return tuple(f"{text} ({n} times)" if n > 1 else text for text, n in self._now.items())

    def counts(self) -> dict[str, int]:
        """Kind -> how often since the start."""
        return dict(self._total)
