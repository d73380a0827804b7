"""When a level changed: the instant at which the medians before and after differ most.

Enters: a series of rows of equal length. Leaves: an `Onset`, or None when there is no shift that
stands out. Vectorised over all instants; no fitting, no dependence on a distribution.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

SIDE = 5
"""Rows on each side: a shift is seen when it has lasted so long."""
LEAST_SHIFT = 0.15
"""Of the level before: below that, noise of a few percent makes shifts of its own."""
LEAST_NOISES = 4.0

Doubles = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Onset:
    """`row` is the first of the new level; `before` and `after` are medians around it."""

    row: int
    before: float
    after: float


def find_onset(series: Doubles) -> Onset | None:
    """The largest shift of a series, NaN for missing; None without one."""
    if len(series) < 2 * SIDE:
        return None
    with np.errstate(all="ignore"):
        windows = sliding_window_view(series, SIDE)
        enough = np.isnan(windows).sum(axis=1) * 2 < SIDE
        medians = np.where(enough, _medians(windows), np.nan)
        before, after = medians[:-SIDE], medians[SIDE:]
        shifts = np.abs(after - before)
    if not np.isfinite(shifts).any():
        return None
    at = int(np.nanargmax(shifts))
    if shifts[at] <= max(LEAST_SHIFT * abs(before[at]), LEAST_NOISES * _noise(series)):
        return None
    row = _edge(series, at, (float(before[at]), float(after[at])))
    return Onset(row, float(before[at]), float(after[at]))


def _medians(windows: Doubles) -> Doubles:
    """Medians of rows without NaN: sorted, missing last."""
    ordered = np.sort(windows, axis=1)
    counts = SIDE - np.isnan(windows).sum(axis=1)
    rows = np.arange(len(ordered))
    low, high = np.maximum(counts - 1, 0) // 2, counts // 2
    medians: Doubles = (ordered[rows, low] + ordered[rows, np.minimum(high, SIDE - 1)]) / 2
    return medians


def _noise(series: Doubles) -> float:
    """The usual step from one row to the next."""
    steps = np.abs(np.diff(series[~np.isnan(series)]))
    return float(np.median(steps)) if len(steps) else 0.0


def _edge(series: Doubles, at: int, levels: tuple[float, float]) -> int:
    """The first row beyond the middle of both levels, near the best split."""
    before, after = levels
    middle, up = (before + after) / 2, after > before
    for row in range(at, min(at + 2 * SIDE, len(series))):
        if np.isfinite(series[row]) and (series[row] > middle) == up:
            return row
    return at + SIDE
