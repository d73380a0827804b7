"""Functions over the GPUs of a group, for all groups at once.

Enters: a value and a group number for every GPU (NaN for no value, -1 for no group). Leaves: one
value a group. One sort serves min, max, median and quantile: group and value in one 64-bit key.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from otel_ofu.rules.language.syntax import GroupFunction

Values = NDArray[np.float32]
Groups = NDArray[np.intp]

_SIGN = np.uint32(0x80000000)


class Grouped:
    """Values by group; `limit`: every group number is below it."""

    def __init__(self, values: Values, groups: Groups, limit: int) -> None:
        known = (groups >= 0) & ~np.isnan(values)
        self._values = values[known]
        self._groups = groups[known]
        self._limit = limit
        self.counts = np.bincount(self._groups, minlength=limit)

    def reduce(self, function: GroupFunction, q: float | None) -> Values:
        """The function's value for each group, NaN for a group without values."""
        with np.errstate(all="ignore"):
            result: NDArray[np.float64]
            match function:
                case GroupFunction.SUM | GroupFunction.AVG | GroupFunction.COUNT:
                    result = self._sums(function)
                case GroupFunction.MAD:
                    result = self._mad()
                case _:
                    result = self.quantile(_share(function, q))
            known: Values = np.where(self.counts > 0, result, np.nan).astype(np.float32)
            return known

    def share(self, groups: Groups) -> Values:
        """How many of each group's GPUs have a value, in [0, 1]; NaN for an empty group."""
        sizes = np.bincount(groups[groups >= 0], minlength=self._limit)
        with np.errstate(invalid="ignore"):
            shares: Values = (self.counts / sizes).astype(np.float32)
        return shares

    def _sums(self, function: GroupFunction) -> NDArray[np.float64]:
        if function is GroupFunction.COUNT:
            return self.counts.astype(np.float64)
        sums = np.bincount(self._groups, self._values, self._limit).astype(np.float64)
        if function is GroupFunction.SUM:
            return sums
        means: NDArray[np.float64] = sums / self.counts
        return means

    def _mad(self) -> NDArray[np.float64]:
        median = self.quantile(0.5).astype(np.float32)
        apart = np.abs(self._values - median[self._groups])
        return Grouped(apart, self._groups, self._limit).quantile(0.5)

    def quantile(self, q: float) -> NDArray[np.float64]:
        """As in Prometheus: interpolated between the two nearest ranks."""
        if not len(self._ordered):
            return np.full(self._limit, np.nan)
        first = np.cumsum(self.counts) - self.counts
        rank = q * np.maximum(self.counts - 1, 0)
        below = np.floor(rank).astype(np.intp)
        last = len(self._ordered) - 1
        low = self._ordered[np.minimum(first + below, last)]
        high = self._ordered[np.minimum(first + below + 1, last)]
        part = rank - below
        between: NDArray[np.float64] = np.where(part > 0, low + (high - low) * part, low)
        return between

    @cached_property
    def _ordered(self) -> NDArray[np.float64]:
        """All values, by group and then ascending."""
        bits = (self._values + np.float32(0)).view(np.uint32)  # + 0 makes one zero of two
        ascending = np.where(bits & _SIGN, ~bits, bits | _SIGN)
        keys = self._groups.astype(np.uint64) << np.uint64(32) | ascending
        keys.sort()
        ascending = keys.astype(np.uint32)
        bits = np.where(ascending & _SIGN, ascending ^ _SIGN, ~ascending)
        values: NDArray[np.float32] = bits.view(np.float32)
        return values.astype(np.float64)


def _share(function: GroupFunction, q: float | None) -> float:
    match function:
        case GroupFunction.MIN:
            return 0.0
        case GroupFunction.MAX:
            return 1.0
        case GroupFunction.MEDIAN:
            return 0.5
        case _:
            return q or 0.0
