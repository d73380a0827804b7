"""Batches of many requests -> columns of the store, a few times a second.

Enters: batches and ended entities, in the order in which they came. Leaves: writes to the store,
one for each metric and time over all entities; the seconds of GPUs with a job, for totals of jobs;
what jobs reported, for the exporters.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence

import numpy as np

from otel_ofu.model import Entity, Observation, Window
from otel_ofu.receive.intake import Intake, PointBatch, owner_of
from otel_ofu.receive.layouts import KeySet
from otel_ofu.store import FleetState, Store

END_AFTER_S = 60.0
"""Starting value: an agent restarts within seconds."""
# Starting value: jobs that reported between two rounds of the exporters.
_MOST_PUSHED = 10_000

_BatchKey = tuple[int, KeySet]


class Buffer:
    """Written and flushed by one thread; `take_pushed` may be called by another.

    An entity whose series ended is ended after a minute, unless it is back by then: an agent
    that restarts ends all of its series, and its GPUs are still there.
    """

    def __init__(self, store: Store, fleet: FleetState | None = None) -> None:
        self._store = store
        self._fleet = fleet or FleetState.open(None)
        self._waiting: dict[_BatchKey, list[PointBatch]] = {}
        self._pushed: dict[str, Observation] = {}
        self._pushed_lock = threading.Lock()
        self.points = 0

    def add(self, intake: Intake, now_s: float) -> None:
        """Takes what came of a request."""
        bucket = self._store.bucket
        for batch in intake.batches:
            key = bucket(batch.time_s), batch.keys
            self._waiting.setdefault(key, []).append(batch)
            if self._fleet.endings and batch.keys.living:
                self._fleet.endings.discard(map(owner_of, batch.entities))
            if batch.pushed:
                for entity, row in zip(batch.entities, batch.values.tolist(), strict=True):
                    self._push(entity, batch, row)
        if intake.ended:
            self._fleet.endings.add(intake.ended, now_s + END_AFTER_S)
        self.points += intake.accepted

    def flush(self, now_s: float) -> None:
        """Writes everything that waits, and ends what is to end."""
        waiting, self._waiting, self.points = self._waiting, {}, 0
        for key in sorted(waiting, key=lambda key: key[0]):
            self._write(key[1], waiting[key])
        if self._fleet.endings:
            self._end(now_s)

    def take_pushed(self) -> Sequence[Observation]:
        """What jobs reported since the last call: the newest of each."""
        with self._pushed_lock:
            pushed, self._pushed = self._pushed, {}
        return list(pushed.values())

    def _write(self, keys: KeySet, batches: Sequence[PointBatch]) -> None:
        if keys.times:
            self._count(keys, batches)
        if not keys.living:
            return
        rows = np.ascontiguousarray(np.concatenate([batch.values for batch in batches]).T)
        times = [batch.time_s for batch in batches]
        window = Window(min(times), max(times))
        with self._store.reading():  # a column must not become another entity's in between
            entities = [e for batch in batches for e in self._entities(batch)]
            columns = self._store.admit(entities, window)
            for key, row in zip(keys.keys, rows, strict=True):
                self._store.write_columns(keys.kind, key, window.end_s, columns, row)

    def _count(self, keys: KeySet, batches: Sequence[PointBatch]) -> None:
        """The store keeps a counter's increases as well, and no longer than its history."""
        at = list(keys.times)
        values = np.concatenate([batch.values[:, at] for batch in batches])
        times_s = np.repeat([b.time_s for b in batches], [len(b.entities) for b in batches])
        known = ~np.isnan(values).all(axis=1)
        entities = [entity for batch in batches for entity in batch.entities]
        if not known.all():
            entities = [entities[i] for i in np.flatnonzero(known).tolist()]
            values, times_s = values[known], times_s[known]
        if entities:
            self._fleet.times.put(entities, [keys.keys[i] for i in at], times_s, values)

    def _entities(self, batch: PointBatch) -> Sequence[Entity]:
        """What is known of a job stays as it is: its own process knows less of it."""
        if not batch.pushed:
            return batch.entities
        slots = self._store.slots(batch.keys.kind)
        columns = [slots.find(entity.id) for entity in batch.entities]
        known = (None if column is None else slots.entity(column) for column in columns)
        return [old or new for old, new in zip(known, batch.entities, strict=True)]

    def _push(self, entity: Entity, batch: PointBatch, row: Sequence[float]) -> None:
        pairs = zip(batch.keys.keys, row, strict=True)
        values: Mapping[str, float] = {key: value for key, value in pairs if value == value}  # noqa: PLR0124 - NaN is not itself
        with self._pushed_lock:
            before = self._pushed.get(entity.id)
            if before is None and len(self._pushed) >= _MOST_PUSHED:
                return
            merged = {**before.values, **values} if before else values
            window = Window(batch.time_s, batch.time_s)
            self._pushed[entity.id] = Observation(entity, window, merged)

    def _end(self, now_s: float) -> None:
        due = self._fleet.endings.due(now_s)
        for kind, entity_id in due:
            self._store.end(kind, entity_id)
        self._fleet.endings.discard(due)
