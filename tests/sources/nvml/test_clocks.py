"""The mean clock of a window from its spans: its error, the clock while busy, the reasons."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from otel_ofu.sources.nvml.clocks import ClockSpan, ClockWindow, window_of
from otel_ofu.sources.nvml.counters import CLOCK_EVENT_BITS

IDLE, CAPPED = CLOCK_EVENT_BITS["gpu_idle"], CLOCK_EVENT_BITS["sw_power_cap"]
LOW, HIGH = 1420e6, 1980e6


def spans(*rows: tuple[float, float, int | None]) -> list[ClockSpan]:
    """Of (length, clock, reasons), one after the other."""
    found, now_s = [], 0.0
    for length_s, clock_hz, reasons in rows:
        found.append(ClockSpan(now_s, now_s + length_s, clock_hz, reasons))
        now_s += length_s
    return found


def window(*rows: tuple[float, float, int | None]) -> ClockWindow:
    found = window_of(parts := spans(*rows), 0.0, parts[-1].end_s)
    assert found is not None
    return found


def alternating(clocks: Sequence[float], count: int) -> ClockWindow:
    return window(*((1.0, clocks[i % len(clocks)], None) for i in range(count)))


def test_the_mean_is_weighted_by_time_and_cut_to_the_window() -> None:
    found = window_of(spans((4, HIGH, None), (3, LOW, None), (5, HIGH, None)), 3.0, 9.0)
    assert found is not None
    assert found.mean_hz() == pytest.approx((1 * HIGH + 3 * LOW + 2 * HIGH) / 6)


def test_a_window_that_was_hardly_sampled_has_no_mean() -> None:
    rows = spans(*((1.0, LOW, None) for _ in range(7)))
    assert window_of(rows, 0.0, 10.0) is None
    assert window_of(rows[:2], 0.0, 2.0) is None
    assert window_of([], 0.0, 10.0) is None
    assert window_of(rows, 0.0, 8.0) is not None


def test_a_clock_that_stands_still_has_no_error() -> None:
    assert alternating([LOW], 50).error_hz() == 0.0


def test_the_error_of_one_step_is_that_of_a_step_at_a_random_place_of_a_stratum() -> None:
    """Its sample is one clock or the other: h x step at a uniform place has a variance of 1/6."""
    rows = [(1.0, LOW, None)] * 25 + [(1.0, HIGH, None)] * 25
    assert window(*rows).error_hz() == pytest.approx((HIGH - LOW) / 50 / 6**0.5)


def test_the_error_of_independent_samples_is_the_textbook_one() -> None:
    chance = random.Random(5)
    clocks = [chance.gauss(1700e6, 100e6) for _ in range(400)]
    assert alternating(clocks, 400).error_hz() == pytest.approx(100e6 / 400**0.5, rel=0.15)


def test_a_steady_clock_is_the_clock_while_busy_whatever_else_is_known() -> None:
    found = alternating([1600e6, 1650e6], 50)
    assert found.busy_hz(None, None) == found.mean_hz()
    assert found.busy_hz(0.3, 0.2) == found.mean_hz()


def test_idle_samples_are_left_out_where_the_driver_tells_them() -> None:
    found = window((5, LOW, CAPPED), (1, 1700e6, 0), (4, HIGH, IDLE))
    assert found.busy_hz(0.6, 0.5) == pytest.approx((5 * LOW + 1700e6) / 6)


def test_idle_samples_that_contradict_the_engine_are_not_believed() -> None:
    found = window((1, LOW, 0), (1, LOW, IDLE), (8, HIGH, IDLE))
    assert found.busy_hz(0.9, 0.3) is None


def test_work_is_at_the_high_clock_where_the_sms_cannot_have_done_it_at_the_low_one() -> None:
    found = window((5, 345e6, None), (4, HIGH, None), (1, HIGH, None))
    sm = 0.93 * 0.5 * HIGH / found.mean_hz()
    assert found.busy_hz(0.5, sm) == pytest.approx(HIGH)


def test_work_is_at_the_low_clock_where_a_limit_holds_there() -> None:
    found = window((5, LOW, CAPPED), (4, HIGH, 0), (1, HIGH, 0))
    assert found.busy_hz(0.5, 0.4) == pytest.approx(LOW)


def test_where_nothing_tells_which_clock_was_busy_there_is_none() -> None:
    found = window((5, LOW, None), (4, HIGH, None), (1, HIGH, None))
    assert found.busy_hz(0.5, 0.4) is None
    assert found.busy_hz(0.0, 0.0) is None
    assert found.busy_hz(None, None) is None
    assert found.busy_hz(0.99, 0.9) == found.mean_hz()


def test_reasons_are_shares_of_the_time_in_which_they_were_read() -> None:
    shares = window((5, LOW, CAPPED), (3, HIGH, IDLE), (2, HIGH, None)).reasons()
    assert shares["sw_power_cap"] == pytest.approx(5 / 8)
    assert shares["gpu_idle"] == pytest.approx(3 / 8)
    assert shares["hw_slowdown"] == 0.0
    assert alternating([LOW], 4).reasons() == {}
