"""Since when: the instant at which the level of OFU changed, and flags that came before.

Enters: the store, the GPUs of a finding. Leaves: an `Onset`, or None when no shift stands out. A
shift is where the medians before and after differ most: vectorised over all instants, no fitting,
no dependence on a distribution. History is of minutes, so dates are good to a minute.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from otel_ofu.diagnose.scoring import Indices
from otel_ofu.rules.annotations import duration_words
from otel_ofu.store import Store

HISTORY_S = 7_200.0
"""How far back an onset is searched for. Starting value."""
FLAG_FIRST_S = 900.0
"""A flag that came so long before may still be the reason: jobs take a while to start.
Starting value."""

SIDE = 5
"""Rows on each side: a shift is seen when it has lasted so long. Starting value."""
LEAST_SHIFT = 0.15
"""Of the level before: below that, noise of a few percent makes shifts of its own.
Starting value."""
LEAST_NOISES = 4.0
"""Of the usual step from one row to the next. Starting value."""

Rows = NDArray[np.float32]
Doubles = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Onset:
    """When OFU changed its level (Unix seconds), from what to what; `flag` came `flag_s` before."""

    at_s: float
    before: float
    after: float
    flag: str = ""
    flag_s: float = 0.0

    @property
    def text(self) -> str:
        """`since 14:32 UTC, 3m after TORCH_DISTRIBUTED_DEBUG appeared`."""
        clock = datetime.fromtimestamp(self.at_s, UTC).strftime("%H:%M")
        if not self.flag:
            return f"since {clock} UTC"
        when = "as" if self.flag_s < 1 else f"{duration_words(self.flag_s)} after"
        return f"since {clock} UTC, {when} {self.flag} appeared"


class OnsetFinder:
    """Over the histories of one round; nothing writes meanwhile."""

    def __init__(self, store: Store, at_s: float) -> None:
        self._store = store
        self._at_s = at_s
        self._ofu: tuple[Rows, float] | None = None

    def find(self, gpus: Indices, flags: Iterable[str]) -> Onset | None:
        """The largest change of the mean OFU of some GPUs in the last two hours."""
        rows, row_s = self._history()
        if not len(rows) or not len(gpus):
            return None
        series = _mean(rows[:, gpus])
        shift = find_shift(series)
        if shift is None:
            return None
        end_s = math.ceil(self._at_s / row_s) * row_s
        at_s = end_s - (len(series) - shift.row) * row_s
        flag, first_s = self._first_flag(gpus, flags, at_s, row_s)
        return Onset(at_s, shift.before, shift.after, flag, max(0.0, at_s - first_s))

    def _history(self) -> tuple[Rows, float]:
        if self._ofu is None:
            with self._store.reading():
                start_s = self._at_s - HISTORY_S
                block = self._store.minutes("gpu", "ofu", start_s, self._at_s)
                if not block.length:
                    block = self._store.block("gpu", "ofu", start_s, self._at_s)
                self._ofu = block.array(), block.row_s
        return self._ofu

    def _first_flag(
        self, gpus: Indices, flags: Iterable[str], at_s: float, row_s: float
    ) -> tuple[str, float]:
        """The flag that appeared last before the change; none that was there all along."""
        found: tuple[str, float] = "", at_s
        for name in flags:
            first_s = self._appeared(f"flag:{name}", gpus)
            if first_s is None or not at_s - FLAG_FIRST_S <= first_s <= at_s + row_s:
                continue
            if not found[0] or first_s > found[1]:
                found = name, first_s
        return found

    def _appeared(self, key: str, gpus: Indices) -> float | None:
        with self._store.reading():
            block = self._store.block("gpu", key, self._at_s - HISTORY_S, self._at_s)
            rows = block.array()[:, gpus]
        seen = np.any(rows > 0, axis=1)  # NaN is not
        known = np.any(~np.isnan(rows), axis=1)
        if not seen.any():
            return None
        first = int(np.argmax(seen))
        if not known[:first].any():
            return None
        return self._at_s - (len(rows) - 1 - first) * block.row_s


def _mean(rows: Rows) -> NDArray[np.float64]:
    known = ~np.isnan(rows)
    with np.errstate(all="ignore"):
        mean: NDArray[np.float64] = np.nansum(rows, axis=1, dtype=np.float64) / known.sum(axis=1)
    return mean


@dataclass(frozen=True, slots=True)
class LevelShift:
    """`row` is the first of the new level; `before` and `after` are medians around it."""

    row: int
    before: float
    after: float


def find_shift(series: Doubles) -> LevelShift | None:
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
    return LevelShift(row, float(before[at]), float(after[at]))


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
