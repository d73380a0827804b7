"""Pairing against the integral of made-up work, with samples as an engine takes them."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable

import pytest

from otel_ofu.sources.dcgm.means import (
    SmClock,
    ValueSpan,
    busy_clock,
    over_time,
    pairs,
    standard_error,
)

STEP_S = 0.01
REFERENCE_HZ = 1830e6
Work = Callable[[float], tuple[float, float]]
"""Activity and clock (Hz) at an instant."""


def alternating(at_s: float) -> tuple[float, float]:
    return (0.8, 1200e6) if at_s % 10 < 5 else (0.2, 1980e6)


def bursts(at_s: float) -> tuple[float, float]:
    return (0.62, 1420e6) if at_s % 37 < 19 else (0.0, 1980e6)


def swinging(at_s: float) -> tuple[float, float]:
    return 0.5 + 0.3 * math.sin(at_s), 1600e6 - 250e6 * math.sin(at_s)


def steps(work: Work, start_s: float, end_s: float) -> list[tuple[float, float]]:
    count = round((end_s - start_s) / STEP_S)
    return [work(start_s + (i + 0.5) * STEP_S) for i in range(count)]


def activity(work: Work, start_s: float, end_s: float) -> ValueSpan:
    """What a counter of elapsed cycles shows of an interval."""
    made = steps(work, start_s, end_s)
    cycles = sum(f for _, f in made)
    return ValueSpan(start_s, end_s, sum(a * f for a, f in made) / cycles)


def truth(work: Work, start_s: float, end_s: float) -> float:
    return statistics.fmean(a * f for a, f in steps(work, start_s, end_s)) / REFERENCE_HZ


def clock(work: Work, start_s: float, end_s: float) -> SmClock:
    """Samples of a second."""
    count = round(end_s - start_s)
    return SmClock(
        [ValueSpan(start_s + i, start_s + i + 1, work(start_s + i + 1)[1]) for i in range(count)]
    )


@pytest.mark.parametrize("work", [alternating, bursts, swinging])
@pytest.mark.parametrize("begin_s", [0.3, 2.6, 4.9])
def test_the_product_is_the_integral_over_minutes(work: Work, begin_s: float) -> None:
    errors = []
    for k in range(30):
        start_s = begin_s + 10 * k + k * 0.137  # ticks that do not follow the work
        spans = [activity(work, start_s + i, start_s + i + 5) for i in (0, 5)]
        paired = pairs(spans, clock(work, start_s, start_s + 10))
        assert paired is not None
        ofu = paired.share() * paired.clock_hz() / REFERENCE_HZ
        errors.append(ofu - truth(work, start_s, start_s + 10))
    assert abs(statistics.fmean(errors)) < 0.005
    assert statistics.fmean(e * e for e in errors) ** 0.5 < 0.015


def test_an_interval_takes_only_its_own_part_of_the_clock() -> None:
    samples = SmClock([ValueSpan(0, 1, 100.0), ValueSpan(1, 2, 200.0), ValueSpan(2, 3, 400.0)])
    assert samples.mean(0.5, 1.5) == pytest.approx(150)
    assert samples.mean(2.5, 9.0) == 400
    assert samples.mean(3.0, 4.0) is None


def test_intervals_without_a_clock_are_left_out() -> None:
    paired = pairs([ValueSpan(0, 1, 0.2), ValueSpan(7, 8, 0.9)], SmClock([ValueSpan(0, 1, 1e9)]))
    assert paired is not None
    assert (paired.share(), paired.window.end_s) == (0.2, 1)
    assert pairs([ValueSpan(7, 8, 0.9)], SmClock([ValueSpan(0, 1, 1e9)])) is None


def test_instants_have_their_plain_mean() -> None:
    assert over_time([ValueSpan(1, 1, 2.0), ValueSpan(2, 2, 4.0)]) == 3


def test_the_standard_error_is_that_of_quick_changes_and_an_upper_bound_for_slow_ones() -> None:
    assert standard_error([5.0]) is None
    assert standard_error([5.0] * 9) == 0
    assert standard_error([0.0, 2.0] * 50) == pytest.approx(math.sqrt(2) / 10, rel=1e-2)
    # Half and half: the step lies anywhere between two samples, +-1 of 100, a deviation of 0.0115.
    assert 0.0115 < (standard_error([0.0] * 50 + [2.0] * 50) or 0) < 3 * 0.0115


def test_no_activity_has_no_busy_clock() -> None:
    assert busy_clock([ValueSpan(0, 5, 0.0)], SmClock([ValueSpan(0, 5, 1e9)])) is None
