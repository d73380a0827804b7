"""Intervals hold every value that arithmetic and functions can give."""

from __future__ import annotations

import math
import statistics

from hypothesis import given
from hypothesis import strategies as st

from otel_ofu.rules.functions.bounds import Interval, absolute, deviation, distance, summed
from tests.properties import examples

ENDS = st.integers(-8, 8).map(float)
INTERVALS = st.tuples(ENDS, ENDS).map(lambda ends: Interval(min(ends), max(ends)))
SHARES = st.lists(st.integers(0, 4).map(lambda n: n / 4), min_size=1, max_size=6)


def inside(interval: Interval, share: float) -> float:
    return interval.low + (interval.high - interval.low) * share


def holds(interval: Interval, value: float) -> bool:
    return interval.low - 1e-9 <= value <= interval.high + 1e-9


@given(INTERVALS, INTERVALS, SHARES, SHARES)
@examples(2)
def test_arithmetic_stays_inside(
    left: Interval, right: Interval, shares: list[float], others: list[float]
) -> None:
    for share, other in zip(shares, others, strict=False):
        a, b = inside(left, share), inside(right, other)
        assert holds(left + right, a + b)
        assert holds(left + -right, a - b)
        assert holds(left * right, a * b)
        if b:
            assert holds(left / right, a / b)


@given(INTERVALS, SHARES)
@examples(2)
def test_functions_stay_inside(interval: Interval, shares: list[float]) -> None:
    values = [inside(interval, share) for share in shares]
    assert holds(summed(interval), sum(values))
    assert holds(deviation(interval), statistics.pstdev(values))
    assert holds(distance(interval), abs(values[0] - values[-1]))
    assert holds(absolute(interval), abs(values[0]))


def test_open_ends_stay_open() -> None:
    some = Interval(0.0)
    assert some * Interval(0.0, 2.0) == some
    assert Interval(1.0) / Interval(1.0) == Interval(0.0, math.inf)
    assert Interval(0.0, 1.0) / Interval(0.0, 2.0) == some
    assert Interval(1.0, 2.0) / Interval(-1.0, 1.0) == Interval()
