"""The outbox: what has not been delivered yet, one queue per exporter, on disk where there is one.

Enters: bodies. Leaves: batches in order, until they are done, too old, or crowded out.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from otel_ofu.model.clock import Clock
from otel_ofu.outbox.batch import Batch, Body, Entry, Limits, Observe, Priority
from otel_ofu.outbox.storage import DiskStorage, MemoryStorage, Storage


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


_log = logging.getLogger(__name__)

# While the disk takes nothing, this much of each queue is kept in memory. Starting value.
_SPARE_BYTES = 8 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class QueueStats:
    """`dropped` counts points by reason: queue_full, expired, unreadable, shutdown."""

    size_bytes: int
    capacity_bytes: int
    dropped: Mapping[str, int]


@dataclass(slots=True)
class _Part:
    """A storage, and the order of what this queue has in it."""

    storage: Storage
    entries: PriorityQueues


@dataclass(slots=True)
class _Shared:
    clock: Clock
    observe: Observe
    ids: Iterator[int]
    lock: threading.RLock = field(default_factory=threading.RLock)


class Queue:
    """One exporter's view: batches by priority, then in the order of put. Thread-safe."""

    def __init__(
        self, exporter: str, limits: Limits, shared: _Shared, disk: DiskStorage | None
    ) -> None:
        self.exporter = exporter
        self._disk = disk
        self._limits = limits
        self._shared = shared
        self._changed = threading.Condition(shared.lock)
        self._woken = False
        self._dropped: dict[str, int] = {}
        self._lost_events: dict[str, int] = {}
        spare_bytes = min(_SPARE_BYTES, limits.max_bytes) if disk else limits.max_bytes
        self._memory = _Part(MemoryStorage(), PriorityQueues(Limits(spare_bytes, limits.max_age_s)))
        self._parts = [self._memory]
        if disk is not None:
            self._parts.insert(0, _Part(disk, PriorityQueues(limits)))

    def put(self, body: Body, priority: Priority = Priority.METRICS) -> None:
        """Keeps the body, on disk before this returns; never raises, every drop is counted."""
        with self._changed:
            self._expire()
            shared = self._shared
            now_s = shared.clock.now_s()
            batch = Batch(next(shared.ids), self.exporter, priority, now_s, body)
            part = next(p for p in self._parts if p.storage.save(batch))
            self._drop(part, part.entries.append(batch.entry), "queue_full")
            self.wake()

    def restore(self, entry: Entry) -> None:
        """Takes up a batch that an earlier process left on the disk."""
        part = self._parts[0]
        self._drop(part, part.entries.append(entry), "queue_full")

    def take(self, among: Collection[Priority] = tuple(Priority)) -> Batch | None:
        """The next of these priorities, held until `done` or `put_back`; None if nothing waits."""
        with self._shared.lock:
            self._expire()
            while (found := self._first(among)) is not None:
                part, entry = found
                batch = part.storage.load(entry.id)
                if batch is not None:
                    part.entries.held = entry.id
                    return batch
                part.entries.remove(entry)
                self._drop(part, [entry], "unreadable")
            return None

    def done(self, batch: Batch) -> None:
        """The batch needs no more sending, whatever became of it."""
        with self._shared.lock:
            part = self._held(batch)
            part.entries.held = None
            part.entries.remove(batch.entry)
            part.storage.delete([batch.id])

    def put_back(self, batch: Batch) -> None:
        """The batch stays where it is in the order, for another time."""
        with self._shared.lock:
            self._held(batch).entries.held = None

    def wait(self, timeout_s: float | None) -> None:
        """Returns at the next `put` or `wake`, at once if there was one since the last wait."""
        with self._changed:
            if not self._woken:
                self._changed.wait(timeout_s)
            self._woken = False

    def wake(self) -> None:
        with self._changed:
            self._woken = True
            self._changed.notify_all()

    def stats(self) -> QueueStats:
        with self._shared.lock:
            return QueueStats(
                sum(p.entries.size_bytes for p in self._parts),
                self._limits.max_bytes,
                dict(self._dropped),
            )

    def __len__(self) -> int:
        with self._shared.lock:
            return sum(len(p.entries) for p in self._parts)

    @property
    def durable(self) -> bool:
        """Whether there is a file that will be there at the next start."""
        return self._disk is not None and self._disk.lasting

    def kept(self) -> int:
        """How many bodies will be there at the next start."""
        with self._shared.lock:
            return len(self._parts[0].entries) if self.durable else 0

    def abandon(self) -> None:
        """Counts as dropped what ends with the process: in memory, or in a file that is gone."""
        with self._shared.lock:
            for part in [self._memory] if self.durable else self._parts:
                part.entries.held = None
                lost = []
                while (entry := part.entries.first()) is not None:
                    part.entries.remove(entry)
                    lost.append(entry)
                self._drop(part, lost, "shutdown")

    def _first(self, among: Collection[Priority]) -> tuple[_Part, Entry] | None:
        heads = [(p, entry) for p in self._parts if (entry := p.entries.first(among)) is not None]
        return min(heads, key=lambda head: (-head[1].priority, head[1].id), default=None)

    def _held(self, batch: Batch) -> _Part:
        return next((p for p in self._parts if p.entries.held == batch.id), self._parts[0])

    def _expire(self) -> None:
        now_s = self._shared.clock.now_s()
        for part in self._parts:
            self._drop(part, part.entries.expire(now_s), "expired")

    def _drop(self, part: _Part, entries: Sequence[Entry], reason: str) -> None:
        if not entries:
            return
        points = sum(entry.points for entry in entries)
        self._dropped[reason] = self._dropped.get(reason, 0) + points
        self._warn_of_lost_events(entries, reason)
        self._shared.observe(self.exporter, "dropped", points)
        part.storage.delete([entry.id for entry in entries])

    def _warn_of_lost_events(self, entries: Sequence[Entry], reason: str) -> None:
        """Somebody waits for these. A line at the 1st, 2nd, 4th, ...: a flood stays readable."""
        lost = sum(entry.points for entry in entries if entry.priority is Priority.EVENTS)
        before = self._lost_events.get(reason, 0)
        self._lost_events[reason] = before + lost
        if lost and before.bit_length() < (before + lost).bit_length():
            _log.warning(
                "export %s: %d events or notifications given up so far (%s)",
                self.exporter,
                before + lost,
                reason,
            )


class Outbox:
    """All queues over one file, or in memory alone when `path` is None.

    What the file holds for exporters that are not in `limits` is deleted, with a warning.
    `observe` is called with (exporter, "dropped", points). OutboxError if the file cannot be used.
    """

    def __init__(
        self,
        path: Path | None,
        limits: Mapping[str, Limits],
        clock: Clock,
        observe: Observe = lambda _exporter, _outcome, _points: None,
    ) -> None:
        self._disk = DiskStorage(path) if path is not None else None
        entries = self._disk.entries() if self._disk is not None else []
        ids = count(1 + max((entry.id for _, entry in entries), default=0))
        self._shared = _Shared(clock, observe, ids)
        self.queues: Mapping[str, Queue] = {
            name: Queue(name, limit, self._shared, self._disk) for name, limit in limits.items()
        }
        self._restore(entries)

    def close(self) -> None:
        """Ends the use of the file; what is in memory alone is counted as dropped."""
        with self._shared.lock:
            for queue in self.queues.values():
                queue.abandon()
            if self._disk is not None:
                self._disk.close()

    def _restore(self, entries: Iterable[tuple[str, Entry]]) -> None:
        unclaimed: dict[str, list[int]] = {}
        for exporter, entry in entries:
            if exporter in self.queues:
                self.queues[exporter].restore(entry)
            else:
                unclaimed.setdefault(exporter, []).append(entry.id)
        for exporter, ids in unclaimed.items():
            _log.warning("outbox: %d unsent of %r dropped: no such exporter", len(ids), exporter)
            if self._disk is not None:
                self._disk.delete(ids)
