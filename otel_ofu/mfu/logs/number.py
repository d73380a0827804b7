"""A number as frameworks print it: `1,234.5`, `8.79K`, `41.71%`, `102.0 TFLOPS`, `np.float64(x)`.

Enters: text and the place behind a key. Leaves: the value, or None for `N/A`, `nan` and words.
"""

from __future__ import annotations

import re

# Every repetition is bounded and none overlaps its neighbour: work is linear in what is printed.
_NUMBER = re.compile(
    rb"""[ \t]{0,100}[:=]?[ \t]{0,100}['"]?(?:np\.float(?:32|64)\()?
    (?P<digits>[-+]?(?:\d[\d,]{0,30}(?:\.\d{0,30})?|\.\d{1,30})(?:[eE][-+]?\d{1,3})?)(?!\d)
    (?:(?P<percent>[ ]?%)|[ ]?(?P<si>[KMGTP])FLOPS|(?P<human>[KMBGT])(?![A-Za-z]))?""",
    re.VERBOSE,
)
_FACTORS = {b"": 1.0, b"K": 1e3, b"M": 1e6, b"B": 1e9, b"G": 1e9, b"T": 1e12, b"P": 1e15}


def number_at(text: bytes, position: int) -> float | None:
    """The number that stands at `position`, after blanks and a `:` or `=`.

    A percent sign makes a ratio of it; K, M, B (or G) and T multiply.
    """
    found = _NUMBER.match(text, position)
    if found is None:
        return None
    value = float(found["digits"].replace(b",", b""))
    value *= _FACTORS[found["si"] or found["human"] or b""]
    return value / 100.0 if found["percent"] else value
