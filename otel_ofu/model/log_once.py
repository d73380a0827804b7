"""What went wrong, counted, and told once per cause.

Enters: words for people, without what differs each time (process ids, times) and without secrets.
Leaves: one log line a cause, counts, and lines for reports.
"""

from __future__ import annotations

import logging
from collections import Counter

MOST_TOLD = 256
"""Distinct causes that are remembered; more than that is noise of one cause."""


class Once:
    """Log lines of one kind, each of them once: `prefix` and the words. For one thread."""

    def __init__(
        self, log: logging.Logger, prefix: str = "", *, level: int = logging.WARNING
    ) -> None:
        self._log = log
        self._prefix = prefix
        self._level = level
        self._told: set[str] = set()

    def tell(self, words: str) -> None:
        if words not in self._told and len(self._told) < MOST_TOLD:
            self._told.add(words)
            self._log.log(self._level, "%s%s", self._prefix, words)


class Troubles:
    """Those of work that is done again and again. Belongs to the thread that does it."""

    def __init__(self, log: logging.Logger, prefix: str = "") -> None:
        self._now: Counter[str] = Counter()
        self._total: Counter[str] = Counter()
        self._log = log, prefix
        self._once = Once(log, prefix)

    def successor(self) -> Troubles:
        """For a thread that takes over from one that hangs: counts and log lines go on."""
        made = Troubles(*self._log)
        made._total.update(self._total)
        made._once = self._once
        return made

    def begin(self) -> None:
        """The work is done anew: what was wrong the last time may be over."""
        self._now.clear()

    def note(self, kind: str, words: str) -> None:
        """`kind` is a short name for counting."""
        self._total[kind] += 1
        self._now[words] += 1
        self._once.tell(words)

    def problems(self) -> tuple[str, ...]:
        """One line a cause since `begin`, as it was told, without the prefix."""
        return tuple(f"{words} ({n} times)" if n > 1 else words for words, n in self._now.items())

    def counts(self) -> dict[str, int]:
        """Kind -> how often since the start."""
        return dict(self._total)
