"""Values on a page that are none.

Enters: a sample's value, and how its exporter marks absent values. Leaves: the `Gap` that stands
in its place, or None for a real value.
"""

from __future__ import annotations

import math

from otel_ofu.model import Gap, GapReason

_MEANING = (
    (GapReason.NOT_READY, "DCGM has no value"),
    (GapReason.NOT_SUPPORTED, "DCGM does not find it"),
    (GapReason.NOT_SUPPORTED, "DCGM does not support it on this device"),
    (GapReason.NOT_PERMITTED, "DCGM may not read it"),
)
# In the order of _MEANING. Source: dcgm_structs.h, DCGM_INT32_BLANK, DCGM_INT64_BLANK,
# DCGM_FP64_BLANK and the three that follow each.
_INT32 = 0x7FFFFFF0
_INT64 = 0x7FFFFFFFFFFFFFF0
_FP64 = 2.0**47
_INT64_AS_FLOAT = 9.2e18


def absence(text: str, value: float, *, dcgm: bool, is_gauge: bool) -> Gap | None:
    """The gap for `value`, which stands on the page as `text`; None if it is a value.

    Totals may pass 2^47, so that double blank is looked for in gauges only; 32-bit blanks are
    compared for equality, for a clock in Hz passes them.
    """
    if math.isnan(value):
        is_nan = text.lstrip("+-").lower() == "nan"
        return Gap(GapReason.NOT_READY if is_nan else GapReason.FAILED, text[:80])
    if not dcgm:
        return None
    offset = _blank(text, value, is_gauge=is_gauge)
    return None if offset is None else Gap(*_MEANING[offset])


def _blank(text: str, value: float, *, is_gauge: bool) -> int | None:
    if value >= _INT64_AS_FLOAT:  # as floats the four are the same number: the text tells them
        exact = int(text) - _INT64 if text.isdigit() else 0
        return exact if 0 <= exact < len(_MEANING) else 0
    if is_gauge and value >= _FP64:
        exact = int(value - _FP64)
        return exact if exact < len(_MEANING) else 0
    return int(value - _INT32) if value in range(_INT32, _INT32 + len(_MEANING)) else None
