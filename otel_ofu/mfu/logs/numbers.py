"""A number in a line as programs print it -> its value.

Enters: bytes and a position. Leaves: a `WrittenNumber`, or None where no number stands or its
notation is not clear (`7_123`, `1.234.567`, `12:30`): a figure that is off by 1,000 is worse than
none. A decimal comma (`41,71%`) is told from a comma between thousands (`7,123`) by the digits
behind it. Three digits leave it open: they are thousands, unless another number of the line has a
decimal comma; then the number is none.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

DecimalMark = Literal[".", ",", ""]
"""What a number shows about the notation of its line; empty: nothing."""

# Every repetition is bounded and none overlaps its neighbour: work is linear in what is printed.
# What may not follow: digits that a mark of thousands in another notation sets apart (_ ' and the
# narrow spaces), and a second part of a time.
_NUMBER = re.compile(
    rb"""[ \t]{0,100}[:=]?[ \t]{0,100}['"]?(?:np\.float(?:32|64)\()?
    (?P<mantissa>[-+]?(?:\d{1,30}(?:[.,]\d{1,30}){0,10}|\.\d{1,30}))
    (?P<exponent>[eE][-+]?\d{1,3})?
    (?!\d|[xX]\d|[.,]\d|[_':]\d|(?:\xc2\xa0|\xe2\x80[\x89\x99\xaf])\d)
    (?:(?P<percent>(?:[ ]|\xc2\xa0|\xe2\x80\xaf)?%)
      |[ ]?(?P<si>[KMGTP])FLOPS|(?P<human>[KMBGT])(?![A-Za-z]))?""",
    re.VERBOSE,
)
_BEFORE = re.compile(rb"[-+]?[\d.,]{1,40}(?:[eE][-+]?\d{1,3})? ?%?$")
_LONGEST_BEFORE = 48
_FACTORS = {b"": 1.0, b"K": 1e3, b"M": 1e6, b"B": 1e9, b"G": 1e9, b"T": 1e12, b"P": 1e15}
_THOUSANDS = re.compile(rb"[-+]?[1-9]\d{0,2}(?:,\d{3})+")
_OPEN = re.compile(rb"[-+]?[1-9]\d{0,2}[.,]\d{3}")


@dataclass(frozen=True, slots=True)
class WrittenNumber:
    """`mantissa` and `exponent` as printed; `factor` of a unit; `percent`: a % stands behind."""

    mantissa: bytes
    exponent: bytes = b""
    factor: float = 1.0
    percent: bool = False

    @property
    def mark(self) -> DecimalMark:
        """The decimal mark, where it cannot be anything else."""
        commas, points = self.mantissa.count(b","), self.mantissa.count(b".")
        if commas and points:
            return "," if self.mantissa.rfind(b",") > self.mantissa.rfind(b".") else "."
        if self._is_open:
            return ""
        return "," if commas == 1 else "." if points == 1 else ""

    def value(self, mark: DecimalMark = "") -> float | None:
        """In a line that is written with `mark`; a ratio where it is a percentage."""
        digits = self._digits(mark)
        if digits is None:
            return None
        value = float(digits + self.exponent) * self.factor
        return value / 100.0 if self.percent else value

    @property
    def _is_open(self) -> bool:
        """Whether three digits behind a mark may be thousands or decimals."""
        return not (self.exponent or self.percent) and bool(_OPEN.fullmatch(self.mantissa))

    def _digits(self, mark: DecimalMark) -> bytes | None:
        """With a decimal point and nothing between thousands; None where it is not clear."""
        if b"," not in self.mantissa and mark != ",":  # nearly all
            return self.mantissa if self.mantissa.count(b".") <= 1 else None
        if self._is_open and mark == ",":
            return None
        if self.mark == ",":
            return _plain(self.mantissa.translate(_SWAPPED))
        return _plain(self.mantissa)


_SWAPPED = bytes.maketrans(b",.", b".,")


def _plain(text: bytes) -> bytes | None:
    """`1,234.5` -> `1234.5`; None unless commas are between groups of three."""
    whole, point, rest = text.partition(b".")
    if b"," in rest or b"." in rest or (b"," in whole and not _THOUSANDS.fullmatch(whole)):
        return None
    return whole.replace(b",", b"") + point + rest


def number_at(text: bytes, position: int) -> WrittenNumber | None:
    """The number that stands at `position`, after blanks and a `:` or `=`.

    K, M, B (or G) and T multiply.
    """
    found = _NUMBER.match(text, position)
    if found is None:
        return None
    factor = _FACTORS[found["si"] or found["human"] or b""]
    percent = found["percent"] is not None
    return WrittenNumber(found["mantissa"], found["exponent"] or b"", factor, percent)


def number_before(text: bytes, position: int) -> WrittenNumber | None:
    """The number that ends at `position`."""
    found = _BEFORE.search(text, max(0, position - _LONGEST_BEFORE), position)
    return None if found is None else number_at(text[found.start() : position], 0)


def mark_of(numbers: Collection[WrittenNumber]) -> DecimalMark:
    """The decimal mark that these numbers of a line show; a comma only where no point does."""
    if not any(b"," in number.mantissa for number in numbers):
        return ""
    marks = {number.mark for number in numbers}
    return "," if "," in marks and "." not in marks else ""
