"""Order and bounds of one queue: which parcel is next and which have to go. No bodies, no I/O.

Enters: slips, the queue's memory of a parcel. Leaves: the next slip, and those dropped.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection
from typing import NamedTuple

from otel_ofu.outbox.batch import Limits, Priority


class Slip(NamedTuple):
    """A parcel without its body."""

    id: int
    priority: Priority
    created_s: float
    size_bytes: int
    points: int


class Lanes:
    """One lane per priority, each in the order of ids; the highest lane goes first.

    The slip whose id is `held` (it is being sent) is neither expired nor crowded out.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._lanes: dict[Priority, deque[Slip]] = {p: deque() for p in sorted(Priority)}
        self.size_bytes = 0
        self.held: int | None = None

    def __len__(self) -> int:
        return sum(len(lane) for lane in self._lanes.values())

    def append(self, slip: Slip) -> list[Slip]:
        """Adds a slip; the ones that it crowds out, the lowest priority's oldest first."""
        if slip.size_bytes > self._limits.max_bytes:
            return [slip]
        self._lanes[slip.priority].append(slip)
        self.size_bytes += slip.size_bytes
        dropped: list[Slip] = []
        while self.size_bytes > self._limits.max_bytes:
            victim = self._oldest_of_least()
            if victim is None:
                break
            self.remove(victim)
            dropped.append(victim)
        return dropped

    def first(self, among: Collection[Priority] = tuple(Priority)) -> Slip | None:
        """The next to send: the oldest of the highest priority among these."""
        lanes = (self._lanes[priority] for priority in reversed(self._lanes) if priority in among)
        return next((lane[0] for lane in lanes if lane), None)

    def remove(self, slip: Slip) -> bool:
        """Takes a slip out; False if it was not there."""
        try:
            self._lanes[slip.priority].remove(slip)
        except ValueError:
            return False
        self.size_bytes -= slip.size_bytes
        return True

    def expire(self, now_s: float) -> list[Slip]:
        """Takes out what is older than the limit."""
        oldest_s = now_s - self._limits.max_age_s
        gone: list[Slip] = []
        for lane in self._lanes.values():
            while (slip := self._oldest(lane)) is not None and slip.created_s < oldest_s:
                self.remove(slip)
                gone.append(slip)
        return gone

    def _oldest_of_least(self) -> Slip | None:
        found = (self._oldest(lane) for lane in self._lanes.values())
        return next((slip for slip in found if slip is not None), None)

    def _oldest(self, lane: deque[Slip]) -> Slip | None:
        """The first that is not held; held is at most one, and then it is the first."""
        for slip in lane:
            if slip.id != self.held:
                return slip
        return None
