"""When a route applies: matchers on labels, as Alertmanager writes them, and time intervals.

Enters: texts and settings, labels, an instant. Leaves: yes or no, or a ValueError with what is
allowed. A matcher is `severity="critical"` or `team=~"a|b"`; a label that is absent is empty.
Time intervals hold in the time zone of the people.
Source: Alertmanager's configuration page, <matcher> and <time_interval>.
"""

from __future__ import annotations

import calendar
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, tzinfo
from functools import cached_property
from typing import Annotated, Literal, cast
from zoneinfo import ZoneInfo

import msgspec

from otel_ofu.files.settings import CheckContext, Mistake, ParsedText, Settings
from otel_ofu.notify.alert import written_label

Labels = Mapping[str, str]
Operator = Literal["=", "!=", "=~", "!~"]

_MATCHER = re.compile(r"\s*([A-Za-z_][\w.]*)\s*(=~|!~|!=|=)\s*(.*?)\s*", re.ASCII | re.DOTALL)
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL)
_ESCAPES = {"n": "\n", '"': '"', "\\": "\\"}
_ALLOWED = 'allowed: label="value", != , =~ "regex" and !~'


@dataclass(frozen=True)
class Matcher:
    """`pattern` holds for the whole value."""

    name: str
    operator: Operator
    value: str

    def matches(self, labels: Labels) -> bool:
        return self.takes(labels.get(self.name, ""))

    def takes(self, value: str) -> bool:
        """Whether the label may have this value."""
        if self.operator in ("=", "!="):
            return (value == self.value) is (self.operator == "=")
        return bool(self._pattern.fullmatch(value)) is (self.operator == "=~")

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        return re.compile(self.value)

    def __str__(self) -> str:
        value = self.value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        return f'{self.name}{self.operator}"{value}"'


def parse_matcher(text: str) -> Matcher:
    """ValueError has what is wrong and what is allowed. `ofu.job.id` is `ofu_job_id`."""
    found = _MATCHER.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is not a matcher; {_ALLOWED}")
    name, operator, value = found.groups()
    matcher = Matcher(written_label(name), cast("Operator", operator), _unquoted(value, text))
    if operator in ("=~", "!~"):
        try:
            re.compile(matcher.value)
        except re.error as error:
            raise ValueError(f"{text!r}: not a regular expression: {error}") from None
    return matcher


def all_match(matchers: Iterable[Matcher], labels: Labels) -> bool:
    return all(matcher.matches(labels) for matcher in matchers)


def _unquoted(value: str, text: str) -> str:
    if '"' not in value:
        return value
    quoted = _QUOTED.fullmatch(value)
    if quoted is None:
        raise ValueError(f"{text!r} has quotes that do not pair; {_ALLOWED}")
    return re.sub(r"\\(.)", lambda m: _ESCAPES.get(m[1], m[0]), quoted[1], flags=re.DOTALL)


Range = tuple[int, int]
_Parse = Callable[[str], int]

_CLOCK = re.compile(r"([01]\d|2[0-4]):([0-5]\d)")
_DAY_MINUTES = 24 * 60
_WEEKDAYS = [day.lower() for day in calendar.day_name]
_MONTHS = [month.lower() for month in calendar.month_name]


def _minute(text: str) -> int:
    found = _CLOCK.fullmatch(text)
    minute = int(found[1]) * 60 + int(found[2]) if found else _DAY_MINUTES + 1
    if minute > _DAY_MINUTES:
        raise ValueError(f"{text!r} is not a time; allowed: 00:00 to 24:00")
    return minute


def _weekdays(text: str) -> Range:
    return _range(text, _WEEKDAYS.index, "monday or monday:friday")


def _days_of_month(text: str) -> Range:
    return _range(text, _day_of_month, "1 to 31 or -1 to -31, or 1:7")


def _months(text: str) -> Range:
    return _range(text, _month, "january or 1, or 1:3")


def _years(text: str) -> Range:
    return _range(text, _year, "a year, or 2026:2027")


def parse_zone(name: str) -> tzinfo:
    """ValueError for a zone that this system does not know."""
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:
        allowed = "allowed: a name such as Europe/Berlin from the system's tzdata, or UTC"
        raise ValueError(f"{name!r} is not a known time zone; {allowed}") from error


Time = Annotated[str, ParsedText(_minute, required=True)]


class TimeRange(Settings, frozen=True, kw_only=True):
    start_time: Time
    end_time: Time

    def mistakes(self, around: CheckContext) -> Iterator[Mistake]:  # noqa: ARG002 - own keys alone
        with suppress(ValueError):  # a time that is none has its own message
            if _minute(self.start_time) >= _minute(self.end_time):
                why = "the end has to be later; a night is two ranges, 22:00 to 24:00 and 00:00"
                yield (), f"{self.start_time} to {self.end_time}: {why} to 06:00"

    def holds(self, minute: int) -> bool:
        return _minute(self.start_time) <= minute < _minute(self.end_time)


class TimeSpanConfig(Settings, frozen=True, kw_only=True):
    """Ranges include both ends, but times of the day, whose end is excluded. Empty: always."""

    times: list[TimeRange] = msgspec.field(default_factory=list)
    weekdays: list[Annotated[str, ParsedText(_weekdays, required=True)]] = msgspec.field(
        default_factory=list
    )
    days_of_month: list[Annotated[str, ParsedText(_days_of_month, required=True)]] = msgspec.field(
        default_factory=list
    )
    months: list[Annotated[str, ParsedText(_months, required=True)]] = msgspec.field(
        default_factory=list
    )
    years: list[Annotated[str, ParsedText(_years, required=True)]] = msgspec.field(
        default_factory=list
    )
    location: Annotated[str, ParsedText(parse_zone, required=True)] = "UTC"

    def holds(self, now_s: float) -> bool:
        now = datetime.fromtimestamp(now_s, parse_zone(self.location))
        minute, last = now.hour * 60 + now.minute, calendar.monthrange(now.year, now.month)[1]
        days = [
            (_from_end(a, last), _from_end(b, last))
            for a, b in map(_days_of_month, self.days_of_month)
        ]
        return (
            (not self.times or any(t.holds(minute) for t in self.times))
            and _within(map(_weekdays, self.weekdays), now.weekday())
            and _within(days, now.day)
            and _within(map(_months, self.months), now.month)
            and _within(map(_years, self.years), now.year)
        )


class TimeIntervalConfig(Settings, frozen=True, kw_only=True):
    name: str
    time_intervals: list[TimeSpanConfig]

    def holds(self, now_s: float) -> bool:
        """ValueError for a part that cannot be read; so its `mistakes` come first."""
        return any(span.holds(now_s) for span in self.time_intervals)


def _range(text: str, parse: _Parse, allowed: str) -> Range:
    first, _, last = text.strip().lower().partition(":")
    try:
        start, end = parse(first.strip()), parse((last or first).strip())
    except (ValueError, IndexError):
        raise ValueError(f"{text!r} is not such a range; allowed: {allowed}") from None
    if start > end and (start < 0) == (end < 0):
        raise ValueError(f"{text!r}: the end is before the start")
    return start, end


def _month(word: str) -> int:
    number = int(word) if word.isdigit() else _MONTHS.index(word)
    return _bounded(number, 1, 12)


def _day_of_month(word: str) -> int:
    number = int(word)
    return -_bounded(-number, 1, 31) if number < 0 else _bounded(number, 1, 31)


def _year(word: str) -> int:
    return _bounded(int(word), 1970, 9999)


def _bounded(number: int, least: int, most: int) -> int:
    if not least <= number <= most:
        raise ValueError(number)
    return number


def _within(ranges: Iterable[Range], value: int) -> bool:
    known = list(ranges)
    return not known or any(a <= value <= b for a, b in known)


def _from_end(day: int, last: int) -> int:
    """-1 is the last day of the month."""
    return last + 1 + day if day < 0 else day
