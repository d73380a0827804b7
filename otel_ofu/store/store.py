"""Recent history of every entity, for rules.

Enters: observations, or columns of values. Leaves: windows [time, entity] as arrays, who the
entities are, and the job and node of each GPU. One lock: the sampler writes, the rules read under
`reading`.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np

from otel_ofu.catalog.registry import Registry
from otel_ofu.model import Entity, EntityKind, Observation, Window
from otel_ofu.model.clock import Clock, SystemClock
from otel_ofu.store.fleet import KINDS, Fleet, Membership
from otel_ofu.store.history import History
from otel_ofu.store.retention import Retention, Shapes, Steps
from otel_ofu.store.series import Columns, Doubles, GatheredValues, SampleBlock, SeriesBatch, only
from otel_ofu.store.slots import Slots
from otel_ofu.store.table import StateFolder

# Starting value: a restart loses a minute of new entities at most. Measured: 10,000 take 27 ms.
SAVE_EVERY_S = 60.0
# New entities are listed sooner, for those who read a copy of the files of a young agent.
SAVE_NEW_EVERY_S = 5.0
# A list that does not change grows old all the same: it holds when each entity was last seen.
SAVE_WHOLE_EVERY_S = 3600.0
# Starting value: clocks of nodes may differ by so much.
FUTURE_S = 60.0


class Store:
    """What was seen of every GPU, job and node, as deep as `retention` has it, on a fixed step.

    `counts`: what became of points: `stored`, `late` (before the oldest row), `early` (in the
    future), `out_of_order` (of a counter), `refused` (not finite, or no room for one more metric),
    `unknown` (no such metric of that kind of entity, or not kept). Besides: `not_saved`,
    lists of entities that the disk did not take; `restarted`, histories that were emptied because
    the clock was set back.
    """

    def __init__(
        self,
        registry: Registry,
        retention: Retention | None = None,
        *,
        step_s: float = 10.0,
        state_dir: Path | None = None,
        clock: Clock | None = None,
    ) -> None:
        """Opens what `state_dir` holds. Raises StateUnusable, StateInUse among them."""
        self.step_s = step_s
        self._steps = Steps(step_s)
        self._registry = registry
        self._retention = retention or Retention()
        self._shapes = Shapes(registry, self._retention, step_s)
        self._clock = clock or SystemClock()
        self._lock = threading.RLock()
        self._counts: Counter[str] = Counter()
        self._folder = StateFolder(state_dir)
        self._fleet = Fleet(dict.fromkeys(KINDS, self._shapes.empty()), self._folder.path)
        self._kept_s = self._saved_s = self._saved_whole_s = self._clock.now_s()
        self.retain(self._retention)

    def write(self, observations: Sequence[Observation]) -> None:
        """Takes observations; what cannot be kept is counted."""
        with self._lock:
            gathered = GatheredValues()
            for seen in observations:
                self._gather(seen, gathered)
            self._fleet.settle()
            for kind, key, batch in gathered.batches():
                self._put(kind, key, batch)
            self._maintain()

    def admit(self, entities: Sequence[Entity], window: Window) -> Columns:
        """The columns of entities, for `write_columns`."""
        with self._lock:
            columns = [self._fleet.admit(entity, window) for entity in entities]
            self._fleet.settle()
        return np.array(columns, np.intp)

    def write_columns(
        self, kind: EntityKind, key: str, time_s: float, columns: Columns, values: Doubles
    ) -> None:
        """Takes one metric of many entities at one time; NaN where an entity has no value."""
        with self._lock:
            batch = SeriesBatch(self.bucket(time_s), columns, values)
            given = ~np.isnan(values)
            batch = batch if given.all() else only(batch, given)
            seen = self.slots(kind).last_seen_s
            seen[batch.columns] = np.fmax(seen[batch.columns], time_s)
            self._put(kind, key, batch)

    def end(self, kind: EntityKind, entity_id: str) -> bool:
        """Ends an entity: its column is free, its history gone. False if there is no such one."""
        with self._lock:
            return self._fleet.end(kind, entity_id)

    def retain(self, retention: Retention) -> None:
        """Keeps more or less history from now on; what is there stays as far as it fits."""
        with self._lock:
            self._retention = retention
            self._shapes = Shapes(self._registry, retention, self.step_s)
            for kind, table in self._fleet.tables.items():
                layout = self._shapes.fitted(kind, table.history.layout)
                if layout != table.history.layout:
                    table.history.reshape(layout, len(table.slots))

    def save(self, *, whole: bool = True) -> None:
        """Writes the lists of entities that changed, or all, to `state_dir`. Raises OSError."""
        with self._lock:
            self._saved_s = self._clock.now_s()
            self._saved_whole_s = self._saved_s if whole else self._saved_whole_s
            for table in self._fleet.tables.values():
                table.save(whole=whole)

    def close(self) -> None:
        """Saves, and lets another process have `state_dir`. Raises OSError."""
        try:
            self.save()
        finally:
            self._folder.release()

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Nobody writes while this is held."""
        with self._lock:
            yield

    @property
    def counts(self) -> Mapping[str, int]:
        """What became of points, by outcome."""
        with self._lock:
            total = self._counts.copy()
            for table in self._fleet.tables.values():
                total.update(table.history.counts)
            return total

    @property
    def messages(self) -> Sequence[str]:
        """What went wrong with the files, a line each."""
        tables = self._fleet.tables.values()
        return [line for table in tables for line in (*table.messages, *table.history.messages)]

    @property
    def membership(self) -> Membership:
        """The job, node and peers of each GPU; hold `reading` meanwhile."""
        return self._fleet.membership

    def slots(self, kind: EntityKind) -> Slots:
        """Who has which column; hold `reading` meanwhile."""
        return self._fleet.tables[kind].slots

    def entities(self, kind: EntityKind) -> Sequence[Entity]:
        """The entities of a kind, in the order of their columns."""
        with self._lock:
            return [entity for _, entity in self.slots(kind)]

    def block(self, kind: EntityKind, key: str, start_s: float, end_s: float) -> SampleBlock:
        """The samples of a metric in (start, end]; hold `reading` meanwhile."""
        parts = self._history(kind).recent(key, self._span(start_s, end_s), self._columns(kind))
        expected = max(1.0, (end_s - start_s) / self.step_s)
        return SampleBlock(parts, (), self.step_s, expected, self._columns(kind))

    def minutes(self, kind: EntityKind, key: str, start_s: float, end_s: float) -> SampleBlock:
        """Means of the minutes of a metric in (start, end]; hold `reading` meanwhile."""
        history, columns = self._history(kind), self._columns(kind)
        means, counts = history.by_minute(key, self._span(start_s, end_s), columns)
        expected = max(1.0, (end_s - start_s) / self.step_s)
        return SampleBlock(means, counts, history.minutes.length_s, expected, columns)

    def totals(self, kind: EntityKind, key: str) -> tuple[Doubles, Doubles]:
        """The last raw values of a counter and when they were seen; NaN for never."""
        columns = self._columns(kind)
        series = self._history(kind).series(key)
        if series is None or not series.shape.counter:
            return np.full(columns, np.nan), np.full(columns, np.nan)
        seen_s = np.where(series.seen < 0, np.nan, series.seen * self.step_s)
        return series.raw[:columns].copy(), seen_s[:columns]

    def bucket(self, time_s: float) -> int:
        """The number of the step that a time falls into; a row is one step."""
        return self._steps.bucket(time_s)

    def _history(self, kind: EntityKind) -> History:
        return self._fleet.tables[kind].history

    def _columns(self, kind: EntityKind) -> int:
        return len(self.slots(kind))

    def _span(self, start_s: float, end_s: float) -> tuple[int, int]:
        """The first and the last bucket in (start, end]."""
        return self.bucket(start_s) + 1, self.bucket(end_s)

    def _gather(self, seen: Observation, gathered: GatheredValues) -> None:
        bucket = self.bucket(seen.window.end_s)
        if self._is_early(bucket):
            self._counts["early"] += len(seen.values)
            return
        slot = self._fleet.admit(seen.entity, seen.window)
        gathered.add(seen, slot, bucket, self._steps.span(seen.window.length_s))

    def _is_early(self, bucket: int) -> bool:
        return bucket > self.bucket(self._clock.now_s() + max(FUTURE_S, self.step_s))

    def _put(self, kind: EntityKind, key: str, batch: SeriesBatch) -> None:
        outcome = self._refusal(kind, key, batch)
        history, used = self._history(kind), self._columns(kind)
        shape = self._shapes.of(kind, key)
        series = history.shape(shape, used) if shape and not outcome else None
        if series is None:
            self._counts[outcome or "refused"] += batch.values.size
            return
        if self._is_early(history.head):
            self._counts["restarted"] += 1
            history.restart(used)
        history.advance(batch.bucket, used)
        batch = self._checked(kind, batch)
        sparse = series.shape.counter and self._registry.metric(key).is_sparse
        history.put(series, replace(batch, sparse=True) if sparse else batch)

    def _checked(self, kind: EntityKind, batch: SeriesBatch) -> SeriesBatch:
        """The finite values; those of counters with a start have when the entity was seen first."""
        finite = np.isfinite(batch.values)
        if not finite.all():
            self._counts["refused"] += int(finite.size - np.count_nonzero(finite))
            batch = only(batch, finite)
        if batch.starts_s is None:
            return batch
        return replace(batch, since_s=self.slots(kind).first_seen_s[batch.columns])

    def _refusal(self, kind: EntityKind, key: str, batch: SeriesBatch) -> str:
        if self._is_early(batch.bucket):
            return "early"
        return "" if self._shapes.of(kind, key) else "unknown"

    def _maintain(self) -> None:
        now_s = self._clock.now_s()
        if now_s - self._kept_s >= SAVE_EVERY_S:
            self._kept_s = now_s
            self._fleet.forget(now_s - self._retention.forget_s)
            self._try_to_save(whole=now_s - self._saved_whole_s >= SAVE_WHOLE_EVERY_S)
        elif now_s - self._saved_s >= SAVE_NEW_EVERY_S and self._fleet.has_new:
            self._try_to_save(whole=False)

    def _try_to_save(self, *, whole: bool) -> None:
        try:
            self.save(whole=whole)
        except OSError:
            self._counts["not_saved"] += 1
