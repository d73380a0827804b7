"""What a user may choose about flags."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FlagSettings:
    """`interval_s`: how often processes are looked at; 1 s or more.

    `budget_s`: the longest that `FlagScanner.scan` waits. `trust_pids`: the driver's process ids
    are those of this /proc, though that cannot be checked.
    """

    interval_s: float = 30.0
    budget_s: float = 0.5
    trust_pids: bool = False

    def __post_init__(self) -> None:
        """ValueError names what is wrong and what is allowed."""
        if not self.interval_s >= 1:
            raise ValueError(f"interval {self.interval_s:g} s; at least 1 s")
        if not self.budget_s >= 0:
            raise ValueError(f"budget {self.budget_s:g} s; 0 or more")
