"""Which values a function can give: the range of what it is of -> the range of its result."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import product


@dataclass(frozen=True, slots=True)
class Interval:
    """All values from `low` to `high`, both included; an open end is infinite."""

    low: float = -math.inf
    high: float = math.inf

    @property
    def is_point(self) -> bool:
        return self.low == self.high

    def __neg__(self) -> Interval:
        return Interval(-self.high, -self.low)

    def __add__(self, other: Interval) -> Interval:
        return Interval(self.low + other.low, self.high + other.high)

    def __mul__(self, other: Interval) -> Interval:
        ends = [_product(a, b) for a, b in product(_ends(self), _ends(other))]
        return Interval(min(ends), max(ends))

    def __truediv__(self, other: Interval) -> Interval:
        """Of all quotients that have a value: a division by zero has none."""
        if other.low < 0 < other.high or other.low == other.high == 0:
            return Interval()
        ends = sorted((_reciprocal(other.low, other), _reciprocal(other.high, other)))
        return self * Interval(*ends)


def _ends(interval: Interval) -> tuple[float, float]:
    return interval.low, interval.high


def _product(left: float, right: float) -> float:
    return 0.0 if 0 in (left, right) else left * right


def _reciprocal(end: float, of: Interval) -> float:
    if end:
        return 1 / end
    return math.inf if of.high > 0 else -math.inf


def same(x: Interval) -> Interval:
    """Of a function that picks a value, or one between two."""
    return x


def from_zero(_: Interval) -> Interval:
    """Of a count, or of what a counter gained."""
    return Interval(0.0)


def summed(x: Interval) -> Interval:
    """Of a sum of one value or more."""
    return Interval(
        x.low if x.low >= 0 else -math.inf,
        x.high if x.high <= 0 else math.inf,
    )


def deviation(x: Interval) -> Interval:
    """Of a standard deviation: half of the values at either end at most."""
    return Interval(0.0, (x.high - x.low) / 2)


def distance(x: Interval) -> Interval:
    """Of a distance between two values."""
    return Interval(0.0, x.high - x.low)


def absolute(x: Interval) -> Interval:
    if x.low <= 0 <= x.high:
        return Interval(0.0, max(-x.low, x.high))
    return x if x.low > 0 else -x
