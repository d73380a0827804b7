"""Order and bounds of one queue: which batch is next and which are dropped. No bodies, no I/O.

Enters: entries. Leaves: the next entry, and those dropped.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection

from otel_ofu.outbox.batch import Entry, Limits, Priority


class PriorityQueues:
    """One queue per priority, each in the order of ids; the highest goes first.

    The entry whose id is `held` (it is being sent) is neither expired nor crowded out.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._queues: dict[Priority, deque[Entry]] = {p: deque() for p in sorted(Priority)}
        self.size_bytes = 0
        self.held: int | None = None

    def __len__(self) -> int:
        return sum(len(queue) for queue in self._queues.values())

    def append(self, entry: Entry) -> list[Entry]:
        """Adds an entry; the ones that it crowds out, the lowest priority's oldest first."""
        if entry.size_bytes > self._limits.max_bytes:
            return [entry]
        self._queues[entry.priority].append(entry)
        self.size_bytes += entry.size_bytes
        dropped: list[Entry] = []
        while self.size_bytes > self._limits.max_bytes:
            victim = self._oldest_of_least()
            if victim is None:
                break
            self.remove(victim)
            dropped.append(victim)
        return dropped

    def first(self, among: Collection[Priority] = tuple(Priority)) -> Entry | None:
        """The next to send: the oldest of the highest priority among these."""
        queues = (
            self._queues[priority] for priority in reversed(self._queues) if priority in among
        )
        return next((queue[0] for queue in queues if queue), None)

    def remove(self, entry: Entry) -> bool:
        """Takes an entry out; False if it was not there."""
        try:
            self._queues[entry.priority].remove(entry)
        except ValueError:
            return False
        self.size_bytes -= entry.size_bytes
        return True

    def expire(self, now_s: float) -> list[Entry]:
        """Takes out what is older than the limit."""
        oldest_s = now_s - self._limits.max_age_s
        gone: list[Entry] = []
        for queue in self._queues.values():
            while (entry := self._oldest(queue)) is not None and entry.created_s < oldest_s:
                self.remove(entry)
                gone.append(entry)
        return gone

    def _oldest_of_least(self) -> Entry | None:
        found = (self._oldest(queue) for queue in self._queues.values())
        return next((entry for entry in found if entry is not None), None)

    def _oldest(self, queue: deque[Entry]) -> Entry | None:
        """The first that is not held; held is at most one, and then it is the first."""
        for entry in queue:
            if entry.id != self.held:
                return entry
        return None
