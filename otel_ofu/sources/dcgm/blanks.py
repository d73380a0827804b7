"""DCGM's ordinary numbers that mean "no value": enters a raw value, leaves the reason or None.

Source: dcgm_fields.h and dcgmvalue.py, blanks per type; a status of 0 says nothing about them.
"""

from __future__ import annotations

import math
from enum import IntEnum

_INT32 = 0x7FFFFFF0
_INT64 = 0x7FFFFFFFFFFFFFF0
_DOUBLE = 2.0**47


class Blank(IntEnum):
    """What the blank tells; its number is the distance from the type's first blank."""

    PLAIN = 0
    NOT_FOUND = 1
    NOT_SUPPORTED = 2
    NOT_PERMITTED = 3


_TEXTS = {
    "<<<NULL>>>": Blank.PLAIN,
    "<<<NOT_FOUND>>>": Blank.NOT_FOUND,
    "<<<NOT_SUPPORTED>>>": Blank.NOT_SUPPORTED,
    "<<<NOT_PERM>>>": Blank.NOT_PERMITTED,
}


def blank_reason(value: float | str | None) -> Blank | None:
    """The blank that a value is; None for a value. NaN and infinities are plain blanks.

    A 32-bit blank counts in a 64-bit field too: some drivers' values arrive unconverted.
    """
    match value:
        case None:
            return Blank.PLAIN
        case str():
            return _blank_text(value)
        case int():
            return _offset(value - _INT64) if value >= _INT64 else _exact(value - _INT32)
        case _:
            if not math.isfinite(value):
                return Blank.PLAIN
            return _offset(int(value - _DOUBLE)) if value >= _DOUBLE else None


def _blank_text(text: str) -> Blank | None:
    if not text.startswith("<<<") or ">>>" not in text:
        return None
    return _TEXTS.get(text, Blank.PLAIN)


def _offset(distance: int) -> Blank:
    return _exact(distance) or Blank.PLAIN


def _exact(distance: int) -> Blank | None:
    return Blank(distance) if 0 <= distance <= max(Blank) else None
