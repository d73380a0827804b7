"""What could not be seen of flags, counted, told once per cause.

Enters: a kind and words without process ids and without values. Leaves: log lines, counts and a
`FlagReport`.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

log = logging.getLogger(__name__)

MOST_TOLD = 64
"""Distinct causes that are remembered; more than that is noise of one cause."""
UNAVAILABLE = "flag evidence unavailable: "


@dataclass(frozen=True, slots=True)
class FlagReport:
    """How the last scan went; `scanned_at_s` is None before the first.

    `unread`: processes whose environment nobody could read, `wiped` those that overwrote theirs.
    `problems`: one line a cause. `counts`: kind -> how often since the start.
    """

    scanned_at_s: float | None = None
    seconds: float = 0.0
    processes: int = 0
    unread: int = 0
    wiped: int = 0
    problems: tuple[str, ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict)


class Troubles:
    """Belongs to the thread that scans."""

    def __init__(self) -> None:
        self._now: Counter[str] = Counter()
        self._total: Counter[str] = Counter()
        self._told: set[str] = set()

    def begin(self) -> None:
        """A new scan: what was wrong in the last one may be over."""
        self._now.clear()

    def note(self, kind: str, words: str) -> None:
        """`kind` is a short name for counting."""
        self._total[kind] += 1
        self._now[words] += 1
        if words not in self._told and len(self._told) < MOST_TOLD:
            self._told.add(words)
            log.warning("%s%s", UNAVAILABLE, words)

    def problems(self) -> tuple[str, ...]:
        """One line a cause."""
        return tuple(
            f"{UNAVAILABLE}{words}{f' ({n} times)' if n > 1 else ''}"
            for words, n in self._now.items()
        )

    def counts(self) -> dict[str, int]:
        """Kind -> how often since the start."""
        return dict(self._total)
