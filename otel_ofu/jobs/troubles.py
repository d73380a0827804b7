"""What could not be seen, counted, told once per cause.

Enters: a kind and words without process ids. Leaves: log lines, counts, and a `JobReport`.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

log = logging.getLogger(__name__)

MOST_TOLD = 256
"""Distinct causes that are remembered; more than that is noise of one cause."""


@dataclass(frozen=True, slots=True)
class JobReport:
    """How the last poll went; `polled_at_s` is None before the first.

    `unowned`: processes on a GPU that no provider knows. `problems`: one line a cause.
    `counts`: kind -> how often since the start, for the agent's own metrics.
    """

    polled_at_s: float | None = None
    seconds: float = 0.0
    devices: int = 0
    processes: int = 0
    unowned: int = 0
    problems: tuple[str, ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict)


class Troubles:
    """Belongs to the thread that polls."""

    def __init__(self) -> None:
        self._now: Counter[str] = Counter()
        self._total: Counter[str] = Counter()
        self._told: set[str] = set()

    def begin(self) -> None:
        """A new poll: what was wrong in the last one may be over."""
        self._now.clear()

    def note(self, kind: str, words: str) -> None:
        self._total[kind] += 1
        self._now[words] += 1
        if words not in self._told and len(self._told) < MOST_TOLD:
            self._told.add(words)
            log.warning("jobs: %s", words)

    def problems(self) -> tuple[str, ...]:
        return tuple(f"{words} ({n} times)" if n > 1 else words for words, n in self._now.items())

    def counts(self) -> dict[str, int]:
        return dict(self._total)
