"""A user's own patterns: blocks of lines -> the figures of those that match.

Regular expressions with named groups. Their engine is RE2, which has no backtracking: no pattern
can hang the agent (docs/decisions/0010-linear-regex.md).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any

from otel_ofu.mfu.logs.blocks import line_end
from otel_ofu.mfu.logs.formats import LineFigures
from otel_ofu.mfu.logs.numbers import WrittenNumber, mark_of, number_at
from otel_ofu.mfu.names import QUANTITIES, Field, Quantity
from otel_ofu.model.errors import OtelOfuError

MAX_PATTERN = 2_000  # starting value: characters
MAX_MEMORY_BYTES = 8 * 1024 * 1024  # RE2's own default

# Lines are matched many at a time: what speaks of the whole text would mean something else then.
_WHOLE_TEXT = re.compile(r"\\[AzZ]|\(\?[a-zA-Z]*-")


class PatternError(OtelOfuError):
    """A pattern that cannot be used, with what is allowed."""


class LinePattern:
    """One compiled pattern. `framework` is the name that its reports carry."""

    def __init__(self, text: str, framework: str = "pattern") -> None:
        self.text = text
        self.framework = framework
        self._compiled = _compile(text)
        self._groups = _groups(text, self._compiled.groupindex)

    def matches(self, block: bytes) -> Iterator[tuple[int, LineFigures]]:
        """Position and figures of the first match of each line in a block of whole lines.

        One search a line, not all matches of a line: those can take quadratic time together.
        """
        at = 0
        while at < len(block):
            found = self._compiled.search(block, at)
            if found is None:
                return
            figures = self._figures(found)
            if figures:
                yield found.start(), LineFigures(self.framework, figures)
            at = line_end(block, found.end()) + 1

    def _figures(self, found: Any) -> dict[Field, float]:  # noqa: ANN401 - a match of re2
        numbers = {
            name: number for name, text in self._texts(found) if (number := number_at(text, 0))
        }
        mark = mark_of(numbers.values())
        figures: dict[Field, float] = {}
        for name, number in numbers.items():
            plain = number.value(mark)
            value = None if plain is None else _value(name, number, plain)
            if value is not None:
                figures.setdefault(QUANTITIES[name].field, value)
        return figures

    def _texts(self, found: Any) -> Iterator[tuple[Quantity, bytes]]:  # noqa: ANN401 - as above
        for name, group in self._groups:
            if text := found.group(group):
                yield name, text


def _value(name: Quantity, number: WrittenNumber, plain: float) -> float | None:
    return QUANTITIES[name].ratio(plain) if number.percent else QUANTITIES[name].value(plain)


def _compile(text: str) -> Any:  # noqa: ANN401 - re2 has no type information
    if not text or len(text) > MAX_PATTERN:
        raise PatternError(f"pattern of {len(text)} characters; allowed: 1 to {MAX_PATTERN}")
    if _WHOLE_TEXT.search(text):
        raise PatternError(f"pattern {text!r}: \\A, \\z and flags that end (?-m) are not allowed")
    re2 = _engine()
    options = re2.Options()
    options.log_errors = False
    options.never_nl = True
    options.max_mem = MAX_MEMORY_BYTES
    try:
        return re2.compile(b"(?m)" + text.encode(), options=options)
    except re2.error as error:
        why = error.args[0].decode("utf-8", "replace") if error.args else "cannot be compiled"
        raise PatternError(
            f"pattern {text!r}: {why}; allowed: RE2 syntax, without look-around and references"
        ) from error


def _engine() -> Any:  # noqa: ANN401 - re2 has no type information
    try:
        return import_module("re2")  # an extra, imported when a pattern first needs it
    except ImportError as error:
        raise PatternError(
            "own log patterns need the RE2 engine: pip install 'otel-ofu[logs]'"
        ) from error


def _groups(text: str, index: Mapping[bytes, int]) -> tuple[tuple[Quantity, int], ...]:
    numbers = {name.decode(): number for name, number in index.items()}
    known = tuple((quantity, numbers[quantity]) for quantity in QUANTITIES if quantity in numbers)
    unknown = sorted(numbers.keys() - QUANTITIES.keys())
    if unknown or not known:
        why = f"unknown group {unknown[0]!r}" if unknown else "no named group"
        raise PatternError(f"pattern {text!r}: {why}; allowed: {', '.join(QUANTITIES)}")
    return known
