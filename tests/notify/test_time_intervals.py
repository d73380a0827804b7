"""Time intervals hold when the clock on the wall says so, over changes of summer time too."""

from __future__ import annotations

import re
from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from otel_ofu.files.settings import CheckContext, mistakes
from otel_ofu.notify.conditions import (
    TimeIntervalConfig,
    TimeRange,
    TimeSpanConfig,
)

BERLIN = "Europe/Berlin"


def holds(span: TimeSpanConfig, when: str, zone: str = BERLIN) -> bool:
    now_s = datetime.fromisoformat(when).replace(tzinfo=ZoneInfo(zone)).timestamp()
    return TimeIntervalConfig(name="x", time_intervals=[span]).holds(now_s)


@pytest.mark.parametrize(
    ("when", "expected"),
    [
        ("2026-07-06 08:59", False),  # a Monday
        ("2026-07-06 09:00", True),
        ("2026-07-10 16:59", True),
        ("2026-07-10 17:00", False),
        ("2026-07-11 12:00", False),
    ],
)
def test_working_hours(when: str, expected: bool) -> None:  # noqa: FBT001 - a column of the table
    hours = TimeSpanConfig(
        times=[TimeRange(start_time="09:00", end_time="17:00")],
        weekdays=["monday:friday"],
        location=BERLIN,
    )
    assert holds(hours, when) is expected


@pytest.mark.parametrize("when", ["2026-03-28 03:30", "2026-03-29 03:30", "2026-10-26 03:30"])
def test_the_same_wall_time_in_winter_and_summer(when: str) -> None:
    night = TimeSpanConfig(times=[TimeRange(start_time="03:00", end_time="04:00")], location=BERLIN)
    assert holds(night, when)
    assert not holds(night, when, "UTC")


@pytest.mark.parametrize(
    ("days", "when", "expected"),
    [
        (["-1"], "2028-02-29 00:00", True),
        (["-1"], "2028-02-28 00:00", False),
        (["-3:-1"], "2026-04-28 00:00", True),
        (["1:7"], "2026-04-07 23:59", True),
        (["28:-1"], "2026-02-28 00:00", True),
        (["31"], "2026-04-30 00:00", False),
    ],
)
def test_days_of_the_month_count_from_both_ends(
    days: list[str],
    when: str,
    expected: bool,  # noqa: FBT001 - a column of the table
) -> None:
    assert holds(TimeSpanConfig(days_of_month=days), when, "UTC") is expected


def test_months_and_years_have_names_and_numbers() -> None:
    span = TimeSpanConfig(months=["december", "1:2"], years=["2026:2027"])
    assert holds(span, "2026-12-24 00:00", "UTC")
    assert holds(span, "2027-02-01 00:00", "UTC")
    assert not holds(span, "2026-03-01 00:00", "UTC")
    assert not holds(span, "2028-01-01 00:00", "UTC")


@pytest.mark.parametrize(
    "span",
    [
        {"times": [TimeRange(start_time="22:00", end_time="06:00")]},
        {"times": [TimeRange(start_time="9:00", end_time="24:30")]},
        {"weekdays": ["mon"]},
        {"weekdays": ["friday:monday"]},
        {"days_of_month": ["0"]},
        {"days_of_month": ["32"]},
        {"days_of_month": ["7:1"]},
        {"months": ["13"]},
        {"years": ["soon"]},
        {"location": "Mars/Olympus"},
        {"location": "../etc/passwd"},
    ],
)
def test_what_is_no_time_is_refused(span: dict[str, object]) -> None:
    config = TimeSpanConfig(**span)  # type: ignore[arg-type]  # keys of the type
    interval = TimeIntervalConfig(name="x", time_intervals=[config])
    found = [message for _, message in mistakes(interval, CheckContext(0.0))]
    assert found
    assert re.search("allowed|has to be later|before the start", found[0])
