"""How the last look at the flags went, for doctor and the agent's own metrics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


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
