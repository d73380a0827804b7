"""What the store holds of one metric over one window, for all entities of a kind."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from otel_ofu.store.series import Rows


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
