"""What a counter was before its first event: 0 in every step in which its entity was seen.

Enters: a counter that just appeared and began with 0, and all series of its kind of entity.
Leaves: zeros in its rows and minutes where any other series has a value; what nobody saw stays
missing. Without them a window would lack samples until half of it lies after the first event.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from otel_ofu.store.series import Columns, Rows, Series


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
