"""Numbers and foreign text as the page writes them. A value that is not known is an en dash."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from html import escape

UNKNOWN = "\N{EN DASH}"
# Starting value: names of jobs and files are shorter.
MOST_CHARACTERS = 200
# What HTML and a line of a table cannot hold, and marks that turn the order of what follows.
_UNWANTED = re.compile(
    "[\\x00-\\x1f\\x7f-\\x9f\\u200e\\u200f\\u202a-\\u202e\\u2066-\\u2069\\ud800-\\udfff]"
)


def printable(text: str) -> str:
    """One line of printable text."""
    return _UNWANTED.sub("\N{REPLACEMENT CHARACTER}", text)


def clean(text: str) -> str:
    """The same, shortened if it is very long."""
    text = printable(text)
    return text if len(text) <= MOST_CHARACTERS else text[: MOST_CHARACTERS - 1] + "…"


def html(text: str) -> str:
    """Text of anybody, fit for an element or a quoted attribute."""
    return escape(clean(text), quote=True)


def percent(ratio: float | None, digits: int = 1) -> str:
    return UNKNOWN if ratio is None else f"{100 * ratio:.{digits}f} %"


def points(ratio: float | None) -> str:
    """A difference of ratios, in percentage points, with its sign."""
    return UNKNOWN if ratio is None else f"{100 * ratio:+.1f}".replace("-", "\N{MINUS SIGN}")


def plain(value: float | None, digits: int = 2) -> str:
    if value is None:
        return UNKNOWN
    return f"{value:.{digits}f}".replace("-", "\N{MINUS SIGN}")


def hours(value: float) -> str:
    """Three digits at least where there are few, none behind the point where there are many."""
    if value == 0:
        return "0"
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 1 else f"{value:.2f}"  # noqa: PLR2004 - digits


def counted(number: int, noun: str) -> str:
    """`1 job`, `2 jobs`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def moment(time_s: float) -> str:
    """Unix seconds as date and time in UTC."""
    try:
        return datetime.fromtimestamp(time_s, UTC).strftime("%Y-%m-%d %H:%M")
    except (OverflowError, ValueError, OSError):
        return f"{time_s:.0f} s"


def span(seconds: float) -> str:
    """A length of time in the unit that reads best."""
    for unit, length_s in (("d", 86400.0), ("h", 3600.0), ("min", 60.0)):
        if seconds >= length_s:
            return f"{_whole(seconds / length_s)} {unit}"
    return f"{_whole(seconds)} s"


def _whole(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
