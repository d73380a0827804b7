"""Formulas of window functions, for all entities at once.

Enters: a `Chunk`, the samples of some columns, and the share of a quantile. Leaves: a value for
every column, NaN without samples.

As in Prometheus, `stddev` is of the population and `quantile` interpolates. `rate` is the increase
from the first to the last sample over the time between them; `increase` is what was counted in the
window and is not extrapolated, so that whole numbers stay whole. Rows of minutes weigh by their
samples; `min`, `max`, `stddev`, `quantile` and `last` see the means of the minutes.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from otel_ofu.store import SampleBlock

Values = NDArray[np.float32]

# The largest sum that a byte holds.
MAX_ROWS_OF_BYTES = 255


class Chunk:
    """One window of some columns, with what several functions need of it."""

    def __init__(self, block: SampleBlock) -> None:
        parts, counts = block.parts, block.counts
        self.x: Values = parts[0] if len(parts) == 1 else np.concatenate(parts)
        self.row_s = block.row_s
        self.missing = np.isnan(self.x)
        self.rows: Values = len(self.x) - _column_sums(self.missing)
        self.weights = np.concatenate(counts) if counts else None
        self.samples = self.rows if self.weights is None else self.weights.sum(axis=0)

    @cached_property
    def filled(self) -> Values:
        """The samples with 0 for missing."""
        return _blanked(self.x, self.missing)

    @cached_property
    def weighted(self) -> Values:
        """What each row adds to the sum: the sample, or the mean times its samples."""
        return self.filled if self.weights is None else self.filled * self.weights

    @cached_property
    def total(self) -> Values:
        total: Values = np.add.reduce(self.weighted, axis=0, dtype=_sum_type(self.x))
        return total

    @cached_property
    def ordered(self) -> Values:
        """Samples of each column in ascending order, missing last, as [column, time]."""
        columns = self.x.T.copy(order="C")
        columns.sort(axis=1)
        return columns


def _blanked(x: Values, missing: NDArray[np.bool_]) -> Values:
    """A copy with 0 for missing: the bits of each sample and all ones or none.

    Half the time of `np.where`, and sums of windows are most of a round.
    """
    keep = np.subtract(missing.view(np.int8), np.int8(1), dtype=np.int32)
    np.bitwise_and(x.view(np.int32), keep, out=keep)
    return keep.view(np.float32)


def _sum_type(x: Values) -> type[np.float32 | np.float64]:
    """Sums of many float32 lose digits; those of a few do not, and are twice as fast."""
    return np.float32 if len(x) <= MAX_ROWS_OF_BYTES else np.float64


def _column_sums(missing: NDArray[np.bool_]) -> Values:
    """How many are missing in each column; bytes hold the sum of 255 rows."""
    step = MAX_ROWS_OF_BYTES
    total = np.zeros(missing.shape[1], np.float32)
    for start in range(0, len(missing), step):
        total += np.add.reduce(missing[start : start + step].view(np.uint8), axis=0, dtype=np.uint8)
    return total


def mean(chunk: Chunk, _: float) -> Values:
    return chunk.total / chunk.samples


def total(chunk: Chunk, _: float) -> Values:
    return np.where(chunk.rows > 0, chunk.total, np.nan)


def smallest(chunk: Chunk, _: float) -> Values:
    lowest: Values = np.fmin.reduce(chunk.x, axis=0)
    return lowest


def largest(chunk: Chunk, _: float) -> Values:
    highest: Values = np.fmax.reduce(chunk.x, axis=0)
    return highest


def count(chunk: Chunk, _: float) -> Values:
    return chunk.samples


def deviation(chunk: Chunk, _: float) -> Values:
    """Of the distances from the newest sample, which float32 holds exactly where they are small.

    The sum of clocks in Hz does not fit it: a locked clock had a deviation of 192 Hz.
    """
    from_newest = _blanked(chunk.x - newest(chunk.x), chunk.missing)
    total = np.add.reduce(from_newest, axis=0, dtype=_sum_type(chunk.x))
    mean = (total / chunk.rows).astype(np.float32)
    apart = _blanked(from_newest - mean, chunk.missing)
    squares: Values = np.einsum("tc,tc->c", apart, apart)
    deviation: Values = np.sqrt(squares / chunk.rows)
    return deviation


def last(chunk: Chunk, _: float) -> Values:
    return newest(chunk.x)


def newest(rows: Values) -> Values:
    """The last sample of each column, NaN where there is none."""
    last: Values = rows[-1].copy()
    for row in rows[-2::-1]:
        missing = np.isnan(last)
        if not missing.any():
            break
        last[missing] = row[missing]
    return last


def quantile(chunk: Chunk, q: float) -> Values:
    rank = q * np.maximum(chunk.rows - 1, 0)
    below = np.floor(rank)
    low = below.astype(np.intp)[:, None]
    high = np.minimum(low + 1, len(chunk.x) - 1)
    at_low = np.take_along_axis(chunk.ordered, low, axis=1)[:, 0]
    at_high = np.take_along_axis(chunk.ordered, high, axis=1)[:, 0]
    part = rank - below
    return np.where(part > 0, at_low + (at_high - at_low) * part, at_low)


def rate(chunk: Chunk, _: float) -> Values:
    known = ~chunk.missing
    first = known.argmax(axis=0)
    last = len(known) - 1 - known[::-1].argmax(axis=0)
    before = np.take_along_axis(chunk.weighted, first[None, :], axis=0)[0]
    elapsed_s = (last - first) * chunk.row_s
    return np.where(chunk.rows > 1, (chunk.total - before) / elapsed_s, np.nan)
