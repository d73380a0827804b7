"""formats.yaml as types: lines of a log -> the figures in them, as reports.

Enters: a block of lines. Leaves: a `JobReport` for each line with a figure of the job's speed. Rare
texts are searched for in whole blocks, so most lines cost nothing. Keys are searched as
plain text and numbers have a bounded form, so the work is linear in the length of the line.
A user's own patterns are regular expressions with named groups. Their engine is RE2, which has no
backtracking: no pattern can hang the agent (docs/decisions/0010-linear-regex.md).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.resources import files
from typing import Any

import msgspec

from otel_ofu.files.yaml import convert, parse_yaml
from otel_ofu.mfu.logs.blocks import LineBlock, line_end, line_start
from otel_ofu.mfu.names import QUANTITIES, Field, Quantity
from otel_ofu.mfu.report import JobReport
from otel_ofu.model.errors import OtelOfuError

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


class LineValue(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A number that stands behind a text."""

    after: str
    is_: Quantity = msgspec.field(name="is")
    scale: float = 1.0


class LineFormat(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One kind of line of one framework; the header of formats.yaml explains the fields."""

    framework: str
    marks: list[str]
    values: list[LineValue]


class _FormatsFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    formats: list[LineFormat]


@dataclass(frozen=True, slots=True)
class LineFigures:
    """What one line has: the framework that writes such lines, and values by field."""

    framework: str
    values: Mapping[Field, float]


@dataclass(frozen=True, slots=True)
class LineReader:
    """A format with its texts as bytes."""

    framework: str
    marks: tuple[bytes, ...]
    values: tuple[tuple[bytes, LineValue], ...]

    def read(self, line: bytes) -> LineFigures | None:
        """The figures of a line; None when it is another kind of line or has no number."""
        if not all(mark in line for mark in self.marks):
            return None
        found: dict[Field, float] = {}
        for key, value in self.values:
            figure = _figure(line, key, value)
            if figure is not None:
                found.setdefault(QUANTITIES[value.is_].field, figure)
        return LineFigures(self.framework, found) if found else None


def _figure(line: bytes, key: bytes, value: LineValue) -> float | None:
    at = line.find(key)
    if at < 0:
        return None
    number = number_at(line, at + len(key))
    return None if number is None else QUANTITIES[value.is_].value(number * value.scale)


@cache
def built_in_readers() -> tuple[LineReader, ...]:
    """The formats of this package in their order; parsed once."""
    text = files("otel_ofu.mfu.logs").joinpath("formats.yaml").read_bytes()
    return tuple(map(_reader, convert(parse_yaml(text, "formats.yaml"), _FormatsFile).formats))


def readers_of(frameworks: Sequence[str]) -> tuple[LineReader, ...]:
    """Those of some frameworks; all for none named. Raises ValueError with the known names."""
    readers = built_in_readers()
    known = dict.fromkeys(reader.framework for reader in readers)
    for name in frameworks:
        if name not in known:
            raise ValueError(f"unknown framework {name!r}; known: {', '.join(known)}")
    return tuple(r for r in readers if not frameworks or r.framework in frameworks)


def _reader(line: LineFormat) -> LineReader:
    marks = tuple(mark.encode() for mark in line.marks)
    return LineReader(line.framework, marks, tuple((v.after.encode(), v) for v in line.values))


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
        figures: dict[Field, float] = {}
        for name, group in self._groups:
            text = found.group(group)
            number = number_at(text, 0) if text else None
            value = None if number is None else QUANTITIES[name].value(number)
            if value is not None:
                figures.setdefault(QUANTITIES[name].field, value)
        return figures


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


@dataclass(frozen=True, slots=True)
class LineOrigin:
    """Where lines come from: the file or command, and the job that the configuration names."""

    source: str
    job: str = ""


class Scanner:
    """Finds reports. Own patterns come first: they are written where the built-in ones fail."""

    def __init__(
        self, readers: Sequence[LineReader] | None = None, patterns: Sequence[LinePattern] = ()
    ) -> None:
        self._readers = tuple(built_in_readers() if readers is None else readers)
        self._marks = tuple(dict.fromkeys(reader.marks[0] for reader in self._readers))
        self._patterns = tuple(patterns)

    def scan(self, block: LineBlock, origin: LineOrigin, now_s: float) -> list[JobReport]:
        """The reports of a block in the order of their lines, at most one a line."""
        found: dict[int, LineFigures] = {}
        for start, figures in self._by_pattern(block.text):
            found.setdefault(start, figures)
        for start, line in self._marked(block.text):
            figures_of_line = None if start in found else self._read(line)
            if figures_of_line is not None:
                found[start] = figures_of_line
        return list(_reports(found, block, origin, now_s))

    def _by_pattern(self, text: bytes) -> Iterator[tuple[int, LineFigures]]:
        for pattern in self._patterns:
            for at, figures in pattern.matches(text):
                yield line_start(text, at), figures

    def _marked(self, text: bytes) -> Iterator[tuple[int, bytes]]:
        """The lines with a mark, each once for each mark it has."""
        for mark in self._marks:
            at = text.find(mark)
            while at >= 0:
                start, end = line_start(text, at), line_end(text, at)
                yield start, text[start:end]
                at = text.find(mark, end)

    def _read(self, line: bytes) -> LineFigures | None:
        return next((f for f in (r.read(line) for r in self._readers) if f is not None), None)


def _reports(
    found: Mapping[int, LineFigures], block: LineBlock, origin: LineOrigin, now_s: float
) -> Iterator[JobReport]:
    line_number, counted_to = block.line_number, 0
    for start in sorted(found):
        line_number += block.text.count(b"\n", counted_to, start)
        counted_to = start
        figures = found[start]
        yield JobReport(
            time_s=now_s,
            source=origin.source,
            framework=figures.framework,
            line_number=line_number,
            job=origin.job,
            **{str(name): value for name, value in figures.values.items()},
        )
