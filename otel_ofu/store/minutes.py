"""Means of a minute, made from the recent rows of a series: history for windows of hours.

Only what is complete in itself enters: a minute's mean and how many values it is of. Minutes are
made again as long as their rows are there, so late values count as well.
"""

from __future__ import annotations

import math

import numpy as np

from otel_ofu.store.retention import MINUTE_S
from otel_ofu.store.series import Series


class Minutes:
    """Keeps the minutes of a series in step with its rows."""

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
        total = np.where(known, rows, np.float32(0)).sum(axis=0)
        at = minute % len(series.means)
        series.counts[at, :used] = count
        with np.errstate(invalid="ignore"):
            series.means[at, :used] = total / count

    def _buckets(self, minute: int) -> range:
        per = self.length_s / self._step_s
        return range(math.floor((minute - 1) * per + 1e-9) + 1, math.floor(minute * per + 1e-9) + 1)
