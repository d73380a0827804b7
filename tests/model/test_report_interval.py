"""What time a report of a job speaks about, and how long it holds."""

from __future__ import annotations

import pytest

from otel_ofu.model.report_interval import FIRST_S, LEAST_S, MOST_S, ReportInterval

T0 = 1_700_000_000.0


def reported(*at_s: float) -> ReportInterval:
    interval = ReportInterval()
    for second in at_s:
        interval.add(T0 + second)
    return interval


def test_a_report_speaks_about_the_time_since_the_one_before() -> None:
    interval = ReportInterval()
    starts = [interval.add(T0 + second) - T0 for second in (0, 600, 1200, 1790)]
    assert starts == [0, 0, 600, 1200]


def test_a_first_report_holds_until_another_shows_how_often_they_come() -> None:
    assert reported(0).until_s == T0 + FIRST_S
    assert reported(0, 600).until_s == T0 + 600 + 1200


def test_a_report_after_a_pause_does_not_speak_about_the_pause() -> None:
    assert reported(0, 60, 120).add(T0 + 3000) == T0 + 3000 - 120


@pytest.mark.parametrize(("interval_s", "held_s"), [(1, LEAST_S), (50, 100), (5000, MOST_S)])
def test_how_long_a_report_holds_is_bounded(interval_s: float, held_s: float) -> None:
    assert reported(0, interval_s).until_s == T0 + interval_s + held_s


def test_a_report_speaks_about_an_hour_at_most() -> None:
    assert reported(0).add(T0 + 1e6) == T0 + 1e6 - MOST_S


def test_lines_that_come_in_pairs_do_not_end_before_the_next_pair() -> None:
    assert reported(0, 1, 600, 601, 1200, 1201).until_s >= T0 + 1800


@pytest.mark.parametrize("second", [600, 599, -1e6])
def test_an_old_report_changes_nothing(second: float) -> None:
    interval = reported(0, 600)
    assert interval.add(T0 + second) == T0 + second
    assert (interval.last_s, interval.until_s) == (T0 + 600, T0 + 1800)
