"""Durations and shares as rule files write them -> numbers. ValueError says what is allowed."""

from __future__ import annotations

import re

from otel_ofu.rules.files.shape import DURATION_PATTERN

_DURATION = re.compile(DURATION_PATTERN)
_PART = re.compile(r"([0-9]+)(ms|[smhdw])")
_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
MAX_S = 90 * 86_400.0


def duration_s(text: str | float) -> float:
    """`1h30m` in seconds, at most 90 days; 0 needs no unit."""
    written = str(text)
    if len(written) > 40 or not _DURATION.fullmatch(written):  # noqa: PLR2004 - 1w6d23h59m59s999ms
        raise ValueError(f"expected a duration such as 30s, 10m or 1h30m, not {written[:40]!r}")
    seconds = sum(int(count) * _MS[unit] for count, unit in _PART.findall(written)) / 1000
    if seconds > MAX_S:
        raise ValueError(f"{written} is longer than 90d, the most allowed")
    return seconds


def share(value: str | float) -> float:
    """`50%` or `0.5` as a ratio in [0, 1]."""
    written = str(value)
    try:
        number = float(written.removesuffix("%")) / (100 if written.endswith("%") else 1)
    except ValueError:
        number = -1.0
    if not 0 <= number <= 1:
        raise ValueError(f"expected a share from 0% to 100%, not {written[:40]!r}")
    return number
