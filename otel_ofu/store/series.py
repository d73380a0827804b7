"""The history of one metric over all entities of a kind: a ring of rows, one a step.

Enters: observations, gathered into values of one bucket for some columns. Leaves: rows, oldest
first, NaN where nothing is; a `SampleBlock` is the rows of one window. A bucket is the number of a
step since the epoch; it holds what was seen up to its end.

A counter that just appeared and is known to begin with 0 gets zeros in every row and minute in
which its entity was seen; what nothing observed stays missing. Without them a window would lack
samples until half of it lies after the first event.

Cumulative counters are kept as increments: a float32 holds 7 digits, and the sum over a window of
increments is right to 1e-7 of itself however large the counter has grown. The last raw value is
kept beside them as a float64.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from otel_ofu.model import EntityKind, Observation
from otel_ofu.store.memory import NEVER, Bytes, SeriesShape, StoreLayout

Columns = NDArray[np.intp]
Rows = NDArray[np.float32]
Doubles = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class SeriesBatch:
    """Values of one metric in one bucket, for different columns.

    `span`: how many buckets up to this one the values speak about. `sparse`: of a counter that
    appears with its first event. `starts_s`: when a cumulative counter began to count (NaN if
    unknown); `since_s`: from when on its entity was watched.
    """

    bucket: int
    columns: Columns
    values: Doubles
    span: int = 1
    starts_s: Doubles | None = None
    since_s: Doubles | None = None
    sparse: bool = False


class Series:
    """Arrays over one section of the memory: `rows` [time, entity], minutes, and raw values."""

    def __init__(self, shape: SeriesShape, layout: StoreLayout, section: Bytes) -> None:
        self.shape = shape
        self._step_s = layout.step_s
        columns, at = layout.capacity, 0
        parts: list[NDArray[np.uint8]] = []
        for count in (layout.rows, shape.minutes, shape.minutes):
            parts.append(section[at : at + count * columns * 4])
            at += count * columns * 4
        self.rows, self.means, self.counts = (
            part.view(np.float32).reshape(-1, columns) for part in parts
        )
        ends = (at, at + 8 * columns, at + 16 * columns) if shape.counter else (at, at, at)
        self.raw: Doubles = section[ends[0] : ends[1]].view(np.float64)
        self.seen: Doubles = section[ends[1] : ends[2]].view(np.float64)
        self.changed_from: int | None = None

    def clear_columns(self, columns: slice | Columns) -> None:
        """Makes columns as if nothing had ever been seen of them."""
        self.rows[:, columns] = np.nan
        self.means[:, columns] = np.nan
        self.counts[:, columns] = 0
        if self.shape.counter:
            self.raw[columns] = np.nan
            self.seen[columns] = NEVER

    def clear_row(self, bucket: int, used: int) -> None:
        self.rows[bucket % len(self.rows), :used] = np.nan

    def put(self, batch: SeriesBatch, max_gap: int) -> int:
        """Writes a batch into its bucket; the number of values that were out of order.

        `max_gap`: the most buckets between two values of a counter that still give an increment.
        """
        self.changed_from = min(batch.bucket - batch.span + 1, self.changed_from or batch.bucket)
        if not self.shape.counter:
            self._row(batch.bucket)[batch.columns] = batch.values
            self._fill_span(batch, batch.values)
            return 0
        batch, dropped = self._in_order(batch)
        self._count(batch, max_gap)
        return dropped

    def begins(self, batch: SeriesBatch) -> Columns:
        """The columns whose counter appears with this batch and is known to begin with 0."""
        known = batch.values == 0
        if batch.starts_s is not None and batch.since_s is not None:
            known |= batch.starts_s >= batch.since_s
        begun: Columns = batch.columns[known & (self.seen[batch.columns] == NEVER)]
        return begun

    def _row(self, bucket: int) -> Rows:
        row: Rows = self.rows[bucket % len(self.rows)]
        return row

    def _fill_span(self, batch: SeriesBatch, values: Doubles | float) -> None:
        """Earlier buckets of a value's own window, where nothing else is."""
        for bucket in range(batch.bucket - batch.span + 1, batch.bucket):
            row = self._row(bucket)
            old = row[batch.columns]
            row[batch.columns] = np.where(np.isnan(old), values, old)

    def _in_order(self, batch: SeriesBatch) -> tuple[SeriesBatch, int]:
        keep = self.seen[batch.columns] <= batch.bucket
        dropped = int(keep.size - np.count_nonzero(keep))
        return (only(batch, keep) if dropped else batch), dropped

    def _count(self, batch: SeriesBatch, max_gap: int) -> None:
        at = batch.columns
        increments = self._increments(batch, max_gap)
        again = self.seen[at] == batch.bucket
        row = self._row(batch.bucket)
        row[at] = np.where(again, np.nan_to_num(row[at]) + increments, increments)
        self.raw[at] = batch.values
        self.seen[at] = batch.bucket
        if batch.span > 1:
            self._fill_span(only(batch, ~np.isnan(increments)), 0.0)

    def _increments(self, batch: SeriesBatch, max_gap: int) -> Doubles:
        """What each counter gained since it was last seen; NaN where it cannot be known.

        A counter that fell was reset and counts from zero, as in Prometheus.
        """
        before, seen = self.raw[batch.columns], self.seen[batch.columns]
        gained = np.where(batch.values < before, batch.values, batch.values - before)
        gained[(seen == NEVER) | (batch.bucket - seen > max_gap)] = np.nan
        if batch.starts_s is None or batch.since_s is None:
            return gained
        since = np.where(seen == NEVER, batch.since_s, seen * self._step_s)
        return np.where(batch.starts_s >= since, batch.values, gained)


def only(batch: SeriesBatch, keep: NDArray[np.bool_]) -> SeriesBatch:
    """The values of a batch that are to be kept."""
    return replace(
        batch,
        columns=batch.columns[keep],
        values=batch.values[keep],
        starts_s=None if batch.starts_s is None else batch.starts_s[keep],
        since_s=None if batch.since_s is None else batch.since_s[keep],
    )


def fill_rows(series: Series, others: Iterable[Series], columns: Columns) -> None:
    """Zeros in the rows in which one of `others` has a value."""
    mine = series.rows[:, columns]
    seen = np.zeros(mine.shape, np.bool_)
    for other in others:
        seen |= ~np.isnan(other.rows[:, columns])
    series.rows[:, columns] = np.where(seen & np.isnan(mine), np.float32(0), mine)


def fill_minutes(series: Series, others: Iterable[Series], newest: int, columns: Columns) -> None:
    """Zeros in the minutes in which one of `others` has samples; `newest` is not yet over."""
    length = len(series.counts)
    minutes = np.arange(newest - length + 1, newest)
    samples: Rows = np.zeros((len(minutes), len(columns)), np.float32)
    for other in others:
        held = min(len(other.counts), len(minutes))
        if held:
            at = np.ix_(minutes[-held:] % len(other.counts), columns)
            np.maximum(samples[-held:], other.counts[at], out=samples[-held:])
    mine = np.ix_(minutes % max(1, length), columns)
    new = (series.counts[mine] == 0) & (samples > 0)
    series.means[mine] = np.where(new, np.float32(0), series.means[mine])
    series.counts[mine] = np.where(new, samples, series.counts[mine])


@dataclass(frozen=True, slots=True)
class SampleBlock:
    """Rows [time, entity], oldest first, NaN for missing: read-only views of the store.

    The next write may change them. `parts`: the rows, in two parts where the ring wraps; rows that
    the store does not hold are left out. `counts`: how many samples each row is a mean of; empty
    for rows of single samples. `row_s`: seconds a row; `expected`: samples that a full window has,
    at least 1.
    """

    parts: tuple[Rows, ...]
    counts: tuple[Rows, ...]
    row_s: float
    expected: float
    columns: int

    @property
    def length(self) -> int:
        """How many rows there are."""
        return sum(len(part) for part in self.parts)

    def array(self) -> Rows:
        """All rows in one array."""
        return np.concatenate([np.empty((0, self.columns), np.float32), *self.parts])

    def chunks(self, width: int) -> Iterator[tuple[slice, SampleBlock]]:
        """The same window over some columns at a time, so that work stays in the cache."""
        for start in range(0, self.columns, width):
            at = slice(start, min(start + width, self.columns))
            parts = tuple(part[:, at] for part in self.parts)
            counts = tuple(part[:, at] for part in self.counts)
            yield at, SampleBlock(parts, counts, self.row_s, self.expected, at.stop - at.start)


def window(ring: Rows, numbers: tuple[int, int], columns: int) -> tuple[Rows, ...]:
    """The rows of a ring numbered first..last, oldest first, in one part or two.

    Read-only views: nothing that is computed from history may change it.
    """
    first, last = numbers
    if last < first:
        return ()
    start, stop = first % len(ring), last % len(ring) + 1
    rows = ring[:, :columns]
    rows.flags.writeable = False
    return (rows[start:stop],) if start < stop else (rows[start:], rows[:stop])


_Destination = tuple[EntityKind, int, int]


@dataclass(slots=True)
class _Column:
    slots: list[int] = field(default_factory=list)
    values: list[float] = field(default_factory=list)
    starts_s: dict[int, float] = field(default_factory=dict)


class GatheredValues:
    """Values by kind of entity, bucket and span, in the order in which they came."""

    def __init__(self) -> None:
        self._columns: dict[_Destination, dict[str, _Column]] = {}

    def add(self, seen: Observation, slot: int, bucket: int, span: int) -> None:
        """Takes the values of an observation. This loop is the cost of writing: keep it short."""
        columns = self._columns.setdefault((seen.entity.kind, bucket, span), {})
        for key, value in seen.values.items():
            column = columns.get(key)
            if column is None:
                column = columns[key] = _Column()
            column.slots.append(slot)
            column.values.append(value)
        for key, start_s in seen.starts_s.items():
            if key in columns:
                columns[key].starts_s[slot] = start_s

    def batches(self) -> Iterator[tuple[EntityKind, str, SeriesBatch]]:
        """The batches, oldest bucket first; the last value of an entity in a bucket counts."""
        for kind, bucket, span in sorted(self._columns, key=lambda to: to[1]):
            for key, column in self._columns[kind, bucket, span].items():
                yield kind, key, _batch(column, bucket, span)


def _batch(column: _Column, bucket: int, span: int) -> SeriesBatch:
    slots = np.array(column.slots, np.intp)
    starts_s = None
    if column.starts_s:
        found = [column.starts_s.get(slot, np.nan) for slot in column.slots]
        starts_s = np.array(found, np.float64)
    return SeriesBatch(bucket, slots, np.array(column.values, np.float64), span, starts_s)
