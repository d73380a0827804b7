"""formats.yaml as types: one line of a log -> the figures in it.

Enters: a line as bytes. Leaves: figures by field of `JobReport`, or nothing. Keys are searched as
plain text and numbers have a bounded form, so the work is linear in the length of the line.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import msgspec

from otel_ofu.files.yaml import convert, parse_yaml
from otel_ofu.mfu.logs.number import number_at
from otel_ofu.mfu.quantities import QUANTITIES, Field, Quantity


class Value(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A number that stands behind a text."""

    after: str
    is_: Quantity = msgspec.field(name="is")
    scale: float = 1.0


class LineFormat(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One kind of line of one framework; the header of formats.yaml explains the fields."""

    framework: str
    marks: list[str]
    values: list[Value]


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    formats: list[LineFormat]


@dataclass(frozen=True, slots=True)
class Figures:
    """What one line says: the framework that writes such lines, and values by field."""

    framework: str
    values: Mapping[Field, float]


@dataclass(frozen=True, slots=True)
class Reader:
    """A format with its texts as bytes."""

    framework: str
    marks: tuple[bytes, ...]
    values: tuple[tuple[bytes, Value], ...]

    def read(self, line: bytes) -> Figures | None:
        """The figures of a line; None when it is another kind of line or has no number."""
        if not all(mark in line for mark in self.marks):
            return None
        found: dict[Field, float] = {}
        for key, value in self.values:
            figure = _figure(line, key, value)
            if figure is not None:
                found.setdefault(QUANTITIES[value.is_].field, figure)
        return Figures(self.framework, found) if found else None


def _figure(line: bytes, key: bytes, value: Value) -> float | None:
    at = line.find(key)
    if at < 0:
        return None
    number = number_at(line, at + len(key))
    return None if number is None else QUANTITIES[value.is_].apply(number * value.scale)


@cache
def built_in_readers() -> tuple[Reader, ...]:
    """The formats of this package in their order; parsed once."""
    text = files("otel_ofu.mfu.logs").joinpath("formats.yaml").read_bytes()
    return tuple(map(_reader, convert(parse_yaml(text, "formats.yaml"), _File).formats))


def readers_of(frameworks: Sequence[str]) -> tuple[Reader, ...]:
    """Those of some frameworks; all for none named. Raises ValueError with the known names."""
    readers = built_in_readers()
    known = dict.fromkeys(reader.framework for reader in readers)
    for name in frameworks:
        if name not in known:
            raise ValueError(f"unknown framework {name!r}; known: {', '.join(known)}")
    return tuple(r for r in readers if not frameworks or r.framework in frameworks)


def _reader(line: LineFormat) -> Reader:
    marks = tuple(mark.encode() for mark in line.marks)
    return Reader(line.framework, marks, tuple((v.after.encode(), v) for v in line.values))
