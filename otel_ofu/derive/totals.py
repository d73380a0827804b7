"""Running FLOP totals: what was done, and what could have been, over the windows that have OFU.

Enters: rate and limit of a window. Leaves: `Totals`, whose ratio is the time-weighted OFU.
"""

from __future__ import annotations

from dataclasses import dataclass

from otel_ofu.model import Window


@dataclass(slots=True)
class Totals:
    """Integrals in FLOP since `start_s` (Unix seconds), without what a window repeats."""

    start_s: float
    end_s: float
    count: float = 0.0
    capacity: float = 0.0

    def add(self, rate: float, limit: float, window: Window) -> None:
        """Counts a window of FLOP/s; time that was counted before is not counted again."""
        if window.end_s < self.end_s - window.length_s:  # the wall clock was set back
            self.start_s = min(self.start_s, window.start_s)
            self.end_s = window.start_s
        fresh_s = window.end_s - max(window.start_s, self.end_s)
        if fresh_s > 0:
            self.count += rate * fresh_s
            self.capacity += limit * fresh_s
            self.end_s = window.end_s


def totals_from(window: Window) -> Totals:
    """Empty totals that begin with a window."""
    return Totals(window.start_s, window.start_s)
