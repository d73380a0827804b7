"""How the last look at the jobs went, for doctor and the agent's own metrics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class JobReport:
    """How the last poll went; `polled_at_s` is None before the first.

    `unowned`: processes on a GPU that no provider knows. `problems`: one line a cause.
    `counts`: kind -> how often since the start.
    """

    polled_at_s: float | None = None
    seconds: float = 0.0
    devices: int = 0
    processes: int = 0
    unowned: int = 0
    problems: tuple[str, ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict)
