"""The shorthand for samples in tests: `0.1x90 _x6 0.5+0.01x30` -> values, NaN for missing.

`AxN` is A, N times; `_xN` is nothing, N times; `A+BxN` is N values from A in steps of B.
"""

from __future__ import annotations

import math
import re

MAX_SAMPLES = 100_000

_NUMBER = r"[0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?|\.[0-9]+(?:[eE][+-]?[0-9]+)?"
_TOKEN = re.compile(
    rf"(?:_|(?P<first>-?(?:{_NUMBER}))(?P<percent>%)?(?P<step>[+-](?:{_NUMBER}))?)"
    r"(?:x(?P<times>[0-9]{1,9}))?"
)


def samples(text: str) -> tuple[float, ...]:
    """All samples of a series. ValueError names the part that is wrong."""
    values: list[float] = []
    for token in text.split():
        found = _TOKEN.fullmatch(token)
        if not found or (found["step"] and found["percent"]):
            raise ValueError(f"{token[:40]!r} is no samples: write 0.1x90, _x6 or 0.5+0.01x30")
        times = int(found["times"] or 1)
        if len(values) + times > MAX_SAMPLES:
            raise ValueError(f"more than {MAX_SAMPLES:,} samples, the most allowed")
        values += _values(found, times)
    if not values:
        raise ValueError("no samples: write 0.1x90, _x6 or 0.5+0.01x30")
    return tuple(values)


def _values(found: re.Match[str], times: int) -> list[float]:
    if found["first"] is None:
        return [math.nan] * times
    first = float(found["first"]) / (100 if found["percent"] else 1)
    step = float(found["step"] or 0)
    return [first + step * i for i in range(times)]
