"""formats.yaml as types: a line of a log -> the figures in it.

Enters: one line. Leaves: its figures, by role where a program prints those of several in one line.
Texts are searched for as they are and numbers have a bounded form, so the work is linear in the
length of the line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from itertools import islice
from typing import Literal

import msgspec

from otel_ofu.files.yaml import convert, parse_yaml
from otel_ofu.mfu.logs.numbers import (
    DecimalMark,
    WrittenNumber,
    mark_of,
    number_at,
    number_before,
)
from otel_ofu.mfu.names import QUANTITIES, Field, Quantity

Detail = Literal["step", "batch_size", "power_w_per_gpu"]
"""What a line says beside the speed: number of the step, samples in it, watts of one GPU."""

MOST_ROLES = 8  # starting value: actor, critic, reference, each in training and inference


class LineValue(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A number that stands behind a text, or before one. `roles`: a role's name and `:` follow."""

    is_: Quantity | Detail = msgspec.field(name="is")
    after: str = ""
    before: str = ""
    scale: float = 1.0
    roles: bool = False


class LineFormat(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One kind of line of one framework; the header of formats.yaml explains the fields."""

    framework: str
    marks: list[str]
    values: list[LineValue]
    precision: str = ""


class _FormatsFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    formats: list[LineFormat]


@dataclass(frozen=True, slots=True)
class LineFigures:
    """What one line has of one role: the framework that writes such lines, and values by field.

    `role` is empty for what is the whole job's. `precision`: of the peak that an MFU is over, where
    the line says it.
    """

    framework: str
    values: Mapping[Field, float]
    role: str = ""
    details: Mapping[Detail, float] = field(default_factory=dict)
    precision: str = ""


@dataclass(frozen=True, slots=True)
class LineReader:
    """A format with its texts as bytes."""

    framework: str
    marks: tuple[bytes, ...]
    values: tuple[tuple[bytes, LineValue], ...]
    precision: str = ""

    def read(self, line: bytes) -> list[LineFigures]:
        """The figures of a line; none when it is another kind of line or has no figure of speed."""
        if not all(mark in line for mark in self.marks):
            return []
        found = list(self._numbers(line))
        mark = mark_of([number for _, _, number in found])
        roles: dict[str, tuple[dict[Field, float], dict[Detail, float]]] = {}
        for value, role, number in found:
            _put(roles.setdefault(role, ({}, {})), value, number, mark)
        return [
            LineFigures(
                self.framework, _with_samples(values, details), role, details, self.precision
            )
            for role, (values, details) in roles.items()
            if values
        ]

    def _numbers(self, line: bytes) -> Iterator[tuple[LineValue, str, WrittenNumber]]:
        for key, value in self.values:
            if value.roles:
                for role, number in islice(_by_role(line, key), MOST_ROLES):
                    yield value, role, number
                continue
            at = line.find(key)
            beside = None if at < 0 else _beside(line, at, key, value)
            if beside is not None:
                yield value, "", beside


def _beside(line: bytes, at: int, key: bytes, value: LineValue) -> WrittenNumber | None:
    return number_before(line, at) if value.before else number_at(line, at + len(key))


_ROLE = re.compile(rb"(\w{1,32}):")


def _by_role(line: bytes, key: bytes) -> Iterator[tuple[str, WrittenNumber]]:
    at = line.find(key)
    while at >= 0:
        at += len(key)
        role = _ROLE.match(line, at)
        number = number_at(line, role.end()) if role else None
        if role and number is not None:
            yield role[1].decode("ascii"), number
        at = line.find(key, at)


def _put(
    to: tuple[dict[Field, float], dict[Detail, float]],
    value: LineValue,
    number: WrittenNumber,
    mark: DecimalMark,
) -> None:
    plain = number.value(mark)
    if plain is None:
        return
    values, details = to
    match value.is_:
        case "step" | "batch_size" | "power_w_per_gpu" as detail:
            if plain >= 0:
                details.setdefault(detail, plain)
        case quantity:
            scaled = plain if number.percent else plain * value.scale
            _put_figure(values, quantity, scaled, percent=number.percent)


def _put_figure(
    values: dict[Field, float], name: Quantity, number: float, *, percent: bool
) -> None:
    quantity = QUANTITIES[name]
    figure = quantity.ratio(number) if percent else quantity.value(number)
    # Programs print 0 for an MFU or a FLOP rate that they do not know.
    if figure or (figure is not None and quantity.field not in ("mfu", "tflops_per_gpu")):
        values.setdefault(quantity.field, figure)


def _with_samples(
    values: dict[Field, float], details: Mapping[Detail, float]
) -> Mapping[Field, float]:
    """Samples in a second follow from those in a step."""
    batch, step_s = details.get("batch_size"), values.get("step_s")
    if batch and step_s and "samples_per_s" not in values:
        return {**values, "samples_per_s": batch / step_s}
    return values


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
    values = tuple(((v.after or v.before).encode(), v) for v in line.values)
    return LineReader(line.framework, marks, values, line.precision)
