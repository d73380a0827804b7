"""The history of all entities of one kind: its memory, its series, and the newest bucket.

Enters: batches of values by metric. Leaves: rows of a window, and means of minutes for windows of
hours. More columns are made by copying, and a section when a metric is seen for the first time.
"""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np

from otel_ofu.store.memory import NEVER, Bytes, MappedMemory, SeriesShape, StoreLayout, fits
from otel_ofu.store.retention import MINUTE_S
from otel_ofu.store.series import (
    Columns,
    Rows,
    Series,
    SeriesBatch,
    fill_minutes,
    fill_rows,
    window,
)


class Minutes:
    """Keeps the minutes of a series in step with its rows.

    Only what is complete in itself enters: a minute's mean and how many values it is of. Minutes
    are made again as long as their rows are there, so late values count as well.
    """

    def __init__(self, step_s: float, rows: int) -> None:
        self.length_s = max(MINUTE_S, step_s)
        self._step_s = step_s
        self._rows = rows

    def of(self, bucket: int) -> int:
        """The minute that a bucket of rows falls into: (start, end] as buckets themselves."""
        return math.ceil(bucket * self._step_s / self.length_s - 1e-9)

    def clear(self, series: Series, heads: tuple[int, int], used: int) -> None:
        """Empties the minutes that begin between an old and a new head."""
        first, last = self.of(heads[0]) + 1, self.of(heads[1])
        for minute in range(max(first, last - len(series.means) + 1), last + 1):
            if len(series.means):
                series.means[minute % len(series.means), :used] = np.nan
                series.counts[minute % len(series.means), :used] = 0

    def follow(self, series: Series, head: int, used: int) -> None:
        """Makes the minutes again in which rows changed, while all their rows are still there."""
        if series.changed_from is None or not len(series.means):
            return
        first, last = self.of(max(series.changed_from, head - self._rows + 1)), self.of(head)
        for minute in range(max(first, last - len(series.means) + 1), last + 1):
            if self._buckets(minute)[0] > head - self._rows:
                self._make(series, minute, head, used)
        series.changed_from = None

    def _make(self, series: Series, minute: int, head: int, used: int) -> None:
        buckets = [b for b in self._buckets(minute) if b <= head]
        rows = series.rows[[b % self._rows for b in buckets], :used]
        known = ~np.isnan(rows)
        count = known.sum(axis=0, dtype=np.float32)
        total = np.where(known, rows, np.float32(0)).sum(axis=0, dtype=np.float64)
        at = minute % len(series.means)
        series.counts[at, :used] = count
        with np.errstate(invalid="ignore"):
            series.means[at, :used] = total / count

    def _buckets(self, minute: int) -> range:
        per = self.length_s / self._step_s
        return range(math.floor((minute - 1) * per + 1e-9) + 1, math.floor(minute * per + 1e-9) + 1)


log = logging.getLogger(__name__)

# Starting values: two nodes of 8 GPUs; doubling 8,192 columns copies 60 MB (20 metrics, 15 min).
FIRST_COLUMNS = 16
MANY_COLUMNS = 8_192
# Starting value: what a counter gained in a longer gap is of an unknown time.
COUNTER_GAP_S = 300.0


class History:
    """`counts`: what became of points: `stored`, `late`, `out_of_order`."""

    def __init__(self, memory: MappedMemory, path: Path | None) -> None:
        self._path = path
        self.counts: Counter[str] = Counter()
        self.messages: list[str] = []
        self._adopt(memory)
        for series in self._series.values():
            series.changed_from = self.head - self._layout.rows + 1

    def _adopt(self, memory: MappedMemory) -> None:
        self._memory = memory
        self._layout = memory.layout
        self.minutes = Minutes(self._layout.step_s, self._layout.rows)
        self._series = {
            shape.key: Series(shape, self._layout, memory.section(i))
            for i, shape in enumerate(self._layout.series)
        }

    @property
    def head(self) -> int:
        """The newest bucket, -1 before the first."""
        return self._memory.head

    @property
    def owners(self) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
        """Marks of who owns each column."""
        return self._memory.owners

    @property
    def layout(self) -> StoreLayout:
        return self._layout

    @property
    def rows(self) -> int:
        return self._layout.rows

    def series(self, key: str) -> Series | None:
        return self._series.get(key)

    def has_room(self, columns: int) -> bool:
        return columns <= self._layout.capacity

    def grow(self, columns: int, used: int) -> None:
        """Room for `columns`, and more than that, so that growing is rare; `used` hold history."""
        self.reshape(msgspec.structs.replace(self._layout, capacity=_roomy(columns)), used)

    def reshape(self, layout: StoreLayout, used: int) -> None:
        """The same history in another shape; in memory alone when the disk does not take it."""
        memory = self._new_memory(layout)
        memory.head = self.head
        old, old_rows = self._series, self.rows
        memory.owners[:used] = self.owners[:used]
        self._adopt(memory)
        for key, series in self._series.items():
            series.clear_columns(slice(0, used))
            if key in old:
                _copy(old[key], series, (self.head, self.minutes.of(self.head)), used)
                series.changed_from = self.head - min(old_rows, layout.rows) + 1
        if self._path:
            memory.rename(self._path)

    def shape(self, shape: SeriesShape, used: int) -> Series | None:
        """The series of a shape, made if it is new; None when no more fit."""
        known = self._series.get(shape.key)
        if known is not None:
            return known
        if not fits(self._layout):
            return None
        series = Series(shape, self._layout, self._section(shape, used))
        self._layout = self._memory.layout
        series.clear_columns(slice(0, used))
        self._series[shape.key] = series
        return series

    def _section(self, shape: SeriesShape, used: int) -> Bytes:
        try:
            return self._memory.add(shape)
        except OSError as error:
            self._leave_disk(error)
            self.reshape(self._layout, used)
            return self._memory.add(shape)

    def _new_memory(self, layout: StoreLayout) -> MappedMemory:
        if self._path is not None:
            try:
                return MappedMemory.create(layout, self._path.with_suffix(".new"))
            except OSError as error:
                self._leave_disk(error)
        return MappedMemory.create(layout, None)

    def _leave_disk(self, error: OSError) -> None:
        """Goes on in memory; the file would be of a time long gone at the next start."""
        if self._path is not None:
            reason = f"{self._path}: {error.strerror}; history does not survive a restart"
            self.messages.append(reason)
            log.warning("%s", reason)
            self._path.with_suffix(".new").unlink(missing_ok=True)
            self._path.unlink(missing_ok=True)
            self._path = None

    def clear_columns(self, columns: slice | Columns) -> None:
        for series in self._series.values():
            series.clear_columns(columns)

    def restart(self, used: int) -> None:
        """Empties everything: the newest bucket is of a time that is yet to come."""
        self.clear_columns(slice(0, used))
        self._memory.head = NEVER

    def advance(self, bucket: int, used: int) -> None:
        """Makes `bucket` the newest, if it is: rows in between are empty."""
        head = self.head
        if bucket <= head:
            return
        first = max(head + 1, bucket - self.rows + 1)
        for series in self._series.values():
            self.minutes.follow(series, head, used)
            self.minutes.clear(series, (head, bucket), used)
            for empty in range(first, bucket + 1):
                series.clear_row(empty, used)
        self._memory.head = bucket

    def put(self, series: Series, batch: SeriesBatch) -> None:
        """Writes a batch whose bucket is not after the head; what is too late is counted."""
        oldest = self.head - self.rows + 1
        if batch.bucket < oldest:
            self.counts["late"] += batch.values.size
            return
        span = min(batch.span, batch.bucket - oldest + 1)
        if span != batch.span:
            batch = replace(batch, span=span)
        gap = max(3, round(COUNTER_GAP_S / self._layout.step_s))
        begun = series.begins(batch) if batch.sparse else ()
        dropped = series.put(batch, gap)
        if len(begun):
            self._fill_absence(series, np.array(begun, np.intp))
        self.counts["out_of_order"] += dropped
        self.counts["stored"] += batch.values.size - dropped

    def _fill_absence(self, series: Series, columns: Columns) -> None:
        """Rare: once for the first event of each kind."""
        fill_rows(series, self._series.values(), columns)
        series.changed_from = self.head - self.rows + 1
        if len(series.means):
            fill_minutes(series, self._series.values(), self.minutes.of(self.head), columns)

    def recent(self, key: str, buckets: tuple[int, int], columns: int) -> tuple[Rows, ...]:
        """The rows of a metric from one bucket to another, as far as they are held."""
        series = self._series.get(key)
        if series is None:
            return ()
        first, last = max(buckets[0], self.head - self.rows + 1), min(buckets[1], self.head)
        return window(series.rows, (first, last), columns)

    def by_minute(
        self, key: str, buckets: tuple[int, int], columns: int
    ) -> tuple[tuple[Rows, ...], tuple[Rows, ...]]:
        """Means of the minutes that end in those buckets, and of how many samples each is."""
        series = self._series.get(key)
        if series is None or not len(series.means):
            return (), ()
        self.minutes.follow(series, self.head, columns)
        newest = self.minutes.of(self.head)
        first = max(self.minutes.of(buckets[0] - 1) + 1, newest - len(series.means) + 1)
        span = first, min(self.minutes.of(buckets[1]), newest)
        return window(series.means, span, columns), window(series.counts, span, columns)


def _roomy(columns: int) -> int:
    """Twice as many for few columns, an eighth more for many: 100,000 of them are 0.7 GB."""
    if columns <= MANY_COLUMNS:
        return max(FIRST_COLUMNS, 1 << (columns - 1).bit_length())
    return -(-columns * 9 // 8 // 1024) * 1024


def _copy(old: Series, new: Series, heads: Sequence[int], used: int) -> None:
    """The newest rows and minutes of one ring into another of a different length."""
    for source, target, head in (
        (old.rows, new.rows, heads[0]),
        (old.means, new.means, heads[1]),
        (old.counts, new.counts, heads[1]),
    ):
        kept = min(len(source), len(target)) if head != NEVER else 0
        for number in range(head - kept + 1, head + 1):
            target[number % len(target), :used] = source[number % len(source), :used]
    if old.shape.counter:
        new.raw[:used], new.seen[:used] = old.raw[:used], old.seen[:used]
