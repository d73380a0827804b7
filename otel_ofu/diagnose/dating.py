"""Since when: the change of level in the history of a finding's GPUs, and flags that came before.

Enters: the store. Leaves: `Began`. History is of minutes, so dates are good to a minute.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np
from numpy.typing import NDArray

from otel_ofu.diagnose.onset import find_onset
from otel_ofu.diagnose.scoring import Indices
from otel_ofu.rules.annotations import duration_words
from otel_ofu.store import Store

LOOK_BACK_S = 7_200.0
FLAG_FIRST_S = 900.0
"""A flag that came so long before may still be the reason: jobs take a while to start."""

Rows = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Began:
    """When OFU changed its level (Unix seconds), from what to what; `flag` came `flag_s` before."""

    at_s: float
    before: float
    after: float
    flag: str = ""
    flag_s: float = 0.0

    @property
    def words(self) -> str:
        """`since 14:32 UTC, 3m after TORCH_DISTRIBUTED_DEBUG appeared`."""
        clock = datetime.fromtimestamp(self.at_s, UTC).strftime("%H:%M")
        if not self.flag:
            return f"since {clock} UTC"
        when = "as" if self.flag_s < 1 else f"{duration_words(self.flag_s)} after"
        return f"since {clock} UTC, {when} {self.flag} appeared"


class Calendar:
    """The histories that were looked at in one round; nobody writes meanwhile."""

    def __init__(self, store: Store, at_s: float) -> None:
        self._store = store
        self._at_s = at_s
        self._ofu: tuple[Rows, float] | None = None

    def began(self, gpus: Indices, flags: Iterable[str]) -> Began | None:
        """The largest change of the mean OFU of some GPUs in the last two hours."""
        rows, row_s = self._history()
        if not len(rows) or not len(gpus):
            return None
        series = _mean(rows[:, gpus])
        onset = find_onset(series)
        if onset is None:
            return None
        end_s = math.ceil(self._at_s / row_s) * row_s
        at_s = end_s - (len(series) - onset.row) * row_s
        flag, first_s = self._first_flag(gpus, flags, at_s, row_s)
        return Began(at_s, onset.before, onset.after, flag, max(0.0, at_s - first_s))

    def _history(self) -> tuple[Rows, float]:
        if self._ofu is None:
            with self._store.reading():
                start_s = self._at_s - LOOK_BACK_S
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
            block = self._store.block("gpu", key, self._at_s - LOOK_BACK_S, self._at_s)
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
