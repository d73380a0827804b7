"""Recent history of every entity, for rules.

Enters: observations, or columns of values. Leaves: windows [time, entity] as arrays, who the
entities are, and whose each GPU is. One lock: the sampler writes, the rules read under `reading`.
"""

from __future__ import annotations

import math
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from otel_ofu.catalog.registry import Registry
from otel_ofu.clock import Clock, SystemClock
from otel_ofu.model import Entity, EntityKind, Observation, Window
from otel_ofu.store.block import Block, window
from otel_ofu.store.fleet import KINDS, Fleet
from otel_ofu.store.folder import StateFolder
from otel_ofu.store.gather import Gathered
from otel_ofu.store.history import History
from otel_ofu.store.membership import Membership
from otel_ofu.store.retention import Retention
from otel_ofu.store.series import Batch, Columns, Doubles
from otel_ofu.store.shapes import Shapes
from otel_ofu.store.slots import Slots

SAVE_EVERY_S = 60.0
FUTURE_S = 60.0
LONGEST_SPAN_S = 60.0
# A value a tenth of a step after an instant still counts to it: timers and clocks are not exact.
SLACK_STEPS = 0.1


class Store:
    """What was seen of every GPU, job and node, as deep as `retention` says, on a fixed step.

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
        """Opens what `state_dir` holds. Raises StateInUse when another process has it."""
        self.step_s = step_s
        self._registry = registry
        self._retention = retention or Retention()
        self._shapes = Shapes(registry, self._retention, step_s)
        self._clock = clock or SystemClock()
        self._lock = threading.RLock()
        self._counts: Counter[str] = Counter()
        self._folder = StateFolder(state_dir)
        self._fleet = Fleet(dict.fromkeys(KINDS, self._shapes.empty()), self._folder.path)
        self._kept_s = self._clock.now_s()
        self.retain(self._retention)

    def write(self, observations: Sequence[Observation]) -> None:
        """Takes observations; what cannot be kept is counted."""
        with self._lock:
            gathered = Gathered()
            for seen in observations:
                self._gather(seen, gathered)
            self._fleet.settle()
            for kind, key, batch in gathered.batches():
                self._put(kind, key, batch)
            self._keep_house()

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
            known = np.isfinite(values)
            if not known.all():
                columns, values = columns[known], values[known]
            seen = self._fleet.tables[kind].slots.last_seen_s
            seen[columns] = np.fmax(seen[columns], time_s)
            self._put(kind, key, Batch(self.bucket(time_s), columns, values))

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

    def save(self) -> None:
        """Writes the lists of entities to `state_dir`. Raises OSError."""
        with self._lock:
            self._kept_s = self._clock.now_s()
            for table in self._fleet.tables.values():
                table.save()

    def close(self) -> None:
        """Saves, and lets another process have `state_dir`. Raises OSError."""
        self.save()
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
        """Whose each GPU is; hold `reading` while looking at it."""
        return self._fleet.membership

    def slots(self, kind: EntityKind) -> Slots:
        """Who has which column; hold `reading` while looking at it."""
        return self._fleet.tables[kind].slots

    def entities(self, kind: EntityKind) -> Sequence[Entity]:
        """The entities of a kind, in the order of their columns."""
        with self._lock:
            return [entity for _, entity in self.slots(kind)]

    def block(self, kind: EntityKind, key: str, start_s: float, end_s: float) -> Block:
        """The samples of a metric in (start, end]; hold `reading` while looking at them."""
        history, columns = self._history(kind), len(self.slots(kind))
        first, last = self.bucket(start_s) + 1, self.bucket(end_s)
        series = history.series(key)
        expected = max(1.0, (end_s - start_s) / self.step_s)
        if series is None:
            return Block((), (), self.step_s, expected, columns)
        first, last = max(first, history.head - history.rows + 1), min(last, history.head)
        pieces = window(series.rows, (first, last), columns)
        return Block(pieces, (), self.step_s, expected, columns)

    def minutes(self, kind: EntityKind, key: str, start_s: float, end_s: float) -> Block:
        """Means of the minutes of a metric in (start, end]; hold `reading` meanwhile."""
        history, columns = self._history(kind), len(self.slots(kind))
        series, minutes = history.series(key), history.minutes
        expected = max(1.0, (end_s - start_s) / self.step_s)
        if series is None or not len(series.means):
            return Block((), (), minutes.length_s, expected, columns)
        history.follow(series, columns)
        newest = minutes.of(history.head)
        first = max(minutes.of(self.bucket(start_s)) + 1, newest - len(series.means) + 1)
        last = min(minutes.of(self.bucket(end_s)), newest)
        means = window(series.means, (first, last), columns)
        counts = window(series.counts, (first, last), columns)
        return Block(means, counts, minutes.length_s, expected, columns)

    def totals(self, kind: EntityKind, key: str) -> tuple[Doubles, Doubles]:
        """The last raw values of a counter and when they were seen; NaN for never."""
        columns = len(self.slots(kind))
        series = self._history(kind).series(key)
        if series is None or not series.shape.counter:
            return np.full(columns, np.nan), np.full(columns, np.nan)
        seen_s = np.where(series.seen < 0, np.nan, series.seen * self.step_s)
        return series.raw[:columns].copy(), seen_s[:columns]

    def bucket(self, time_s: float) -> int:
        """The bucket that a time falls into: those after the last instant, up to the next."""
        return math.ceil(time_s / self.step_s - SLACK_STEPS)

    def _history(self, kind: EntityKind) -> History:
        return self._fleet.tables[kind].history

    def _gather(self, seen: Observation, gathered: Gathered) -> None:
        bucket = self.bucket(seen.window.end_s)
        if self._is_early(bucket):
            self._counts["early"] += len(seen.values)
            return
        slot = self._fleet.admit(seen.entity, seen.window)
        longest = max(3, round(LONGEST_SPAN_S / self.step_s))
        span = min(max(1, round(seen.window.length_s / self.step_s)), longest)
        since_s = float(self.slots(seen.entity.kind).first_seen_s[slot])
        self._counts["refused"] += gathered.add(seen, slot, (bucket, span), since_s)

    def _is_early(self, bucket: int) -> bool:
        return bucket > self.bucket(self._clock.now_s() + max(FUTURE_S, self.step_s))

    def _put(self, kind: EntityKind, key: str, batch: Batch) -> None:
        outcome = self._refusal(kind, key, batch)
        history, used = self._history(kind), len(self.slots(kind))
        shape = self._shapes.of(kind, key)
        series = history.shape(shape, used) if shape and not outcome else None
        if series is None:
            self._counts[outcome or "refused"] += batch.values.size
            return
        if self._is_early(history.head):
            self._counts["restarted"] += 1
            history.restart(used)
        history.advance(batch.bucket, used)
        history.put(series, batch)

    def _refusal(self, kind: EntityKind, key: str, batch: Batch) -> str:
        if self._is_early(batch.bucket):
            return "early"
        return "" if self._shapes.of(kind, key) else "unknown"

    def _keep_house(self) -> None:
        now_s = self._clock.now_s()
        if now_s - self._kept_s < SAVE_EVERY_S:
            return
        self._fleet.forget(now_s - self._retention.forget_s)
        try:
            self.save()
        except OSError:
            self._counts["not_saved"] += 1
