"""Formulas of functions over the GPUs of a group, for all groups at once.

Enters: a value and a group number for every GPU (NaN for no value, -1 for no group), and the share
of a quantile. Leaves: one value a group. One sort serves min, max, median and quantile: group and
value in one 64-bit key.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float32]
Sums = NDArray[np.float64]
Groups = NDArray[np.intp]

_SIGN = np.uint32(0x80000000)


class GroupedValues:
    """Values by group; `limit`: every group number is below it."""

    def __init__(self, values: Values, groups: Groups, limit: int) -> None:
        known = (groups >= 0) & ~np.isnan(values)
        self._values = values[known]
        self._groups = groups[known]
        self._limit = limit
        self.counts = np.bincount(self._groups, minlength=limit)

    def reduce(
        self,
        formula: Callable[[GroupedValues, float], Sums],
        q: float | None,
        empty: float | None = None,
    ) -> Values:
        """The formula's value for each group, `empty` or NaN for a group without values."""
        nothing = math.nan if empty is None else empty
        with np.errstate(all="ignore"):
            result = formula(self, q or 0.0)
            known: Values = np.where(self.counts > 0, result, nothing).astype(np.float32)
            return known

    def share(self, groups: Groups) -> Values:
        """How many of each group's GPUs have a value, in [0, 1]; NaN for an empty group."""
        sizes = np.bincount(groups[groups >= 0], minlength=self._limit)
        with np.errstate(invalid="ignore"):
            shares: Values = (self.counts / sizes).astype(np.float32)
        return shares

    def sums(self) -> Sums:
        return np.bincount(self._groups, self._values, self._limit).astype(np.float64)

    def distances(self, centres: Sums) -> GroupedValues:
        """How far each value is from the centre of its group."""
        apart = np.abs(self._values - centres.astype(np.float32)[self._groups])
        return GroupedValues(apart, self._groups, self._limit)

    def quantile(self, q: float) -> Sums:
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
    def _ordered(self) -> Sums:
        """All values, by group and then ascending."""
        bits = (self._values + np.float32(0)).view(np.uint32)  # + 0 makes one zero of two
        ascending = np.where(bits & _SIGN, ~bits, bits | _SIGN)
        keys = self._groups.astype(np.uint64) << np.uint64(32) | ascending
        keys.sort()
        ascending = keys.astype(np.uint32)
        bits = np.where(ascending & _SIGN, ascending ^ _SIGN, ~ascending)
        values: NDArray[np.float32] = bits.view(np.float32)
        return values.astype(np.float64)


def mean(grouped: GroupedValues, _: float) -> Sums:
    return grouped.sums() / grouped.counts


def total(grouped: GroupedValues, _: float) -> Sums:
    return grouped.sums()


def count(grouped: GroupedValues, _: float) -> Sums:
    return grouped.counts.astype(np.float64)


def smallest(grouped: GroupedValues, _: float) -> Sums:
    return grouped.quantile(0.0)


def largest(grouped: GroupedValues, _: float) -> Sums:
    return grouped.quantile(1.0)


def median(grouped: GroupedValues, _: float) -> Sums:
    return grouped.quantile(0.5)


def median_distance(grouped: GroupedValues, _: float) -> Sums:
    return grouped.distances(grouped.quantile(0.5)).quantile(0.5)


def quantile(grouped: GroupedValues, q: float) -> Sums:
    return grouped.quantile(q)
