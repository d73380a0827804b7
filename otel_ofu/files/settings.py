"""What every block of the configuration is made of: a base, quantities with units, constraints.

The settings type of a stage is its block of the file. Enters: plain YAML data, or a value of such a
type. Leaves: quantities; and every mistake that a type alone cannot express, with the steps to it.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Protocol, Union, get_args, get_origin, runtime_checkable

import msgspec
from msgspec.structs import fields

from otel_ofu.files.sqlite import is_full
from otel_ofu.files.yaml import KEY, Steps

Mistake = tuple[Steps, str]
"""The steps to what is wrong, from the block that found it, and the message."""

_UNITS_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
_UNITS_BYTES = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
_UNITS_HZ = {"Hz": 1.0, "kHz": 1e3, "MHz": 1e6, "GHz": 1e9}
_QUANTITY = re.compile(r"(\d{1,18}(?:\.\d{1,9})?) ?([A-Za-z]+|%)")
_DURATION = re.compile(r"(?:\d{1,18}(?:\.\d{1,9})? ?(?:ms|[smhdw]))+")
_DURATION_PART = re.compile(r"(\d+(?:\.\d+)?) ?(ms|[smhdw])")


class Duration(float):
    """Seconds, written as `500ms`, `10s`, `1h30m` or `1d`."""


class Size(int):
    """Bytes, written as `64KiB`, `256MiB` or `1GiB`."""


class Percent(float):
    """A ratio, written as `40%`."""


YEAR = Duration(365 * 86400)
"""Starting value: what nobody waits for, as the most that a duration may be."""


def parse_duration(text: object) -> Duration:
    """`1h30m` -> 5400.0. ValueError has what is allowed."""
    if not isinstance(text, str) or not _DURATION.fullmatch(text):
        raise ValueError(f"{_shown(text)} is not a duration such as 10s, 500ms, 5m or 2h")
    return Duration(sum(float(n) * _UNITS_S[unit] for n, unit in _DURATION_PART.findall(text)))


def parse_size(text: object) -> Size:
    """`64KiB` -> 65536. ValueError has what is allowed."""
    return Size(_quantity(text, _UNITS_BYTES, "a size such as 64KiB, 256MiB or 1GiB"))


def parse_percent(text: object) -> Percent:
    """`40%` -> 0.4. ValueError has what is allowed."""
    return Percent(_quantity(text, {"%": 0.01}, "a part such as 40%"))


def parse_clock(text: object) -> float:
    """`1830MHz` -> 1.83e9. ValueError has what is allowed."""
    return _quantity(text, _UNITS_HZ, "sku_table, device_max or a clock such as 1830MHz")


def _quantity(text: object, units: Mapping[str, float], allowed: str) -> float:
    found = _QUANTITY.fullmatch(text) if isinstance(text, str) else None
    if not found or found[2] not in units:
        raise ValueError(f"{_shown(text)} is not {allowed}")
    return float(found[1]) * units[found[2]]


def _shown(value: object) -> str:
    return "a block" if isinstance(value, dict | list) else repr(value)


def hook(type_: type[Any], value: Any) -> Any:  # noqa: ANN401 - msgspec's signature
    """For `msgspec.convert` and `yaml.convert`: makes quantities of texts."""
    if type_ is Duration:
        return parse_duration(value)
    if type_ is Size:
        return parse_size(value)
    if type_ is Percent:
        return parse_percent(value)
    raise NotImplementedError(type_)


@dataclass(frozen=True, slots=True)
class CheckContext:
    """What a check depends on beside the settings. `now_s` in Unix seconds."""

    now_s: float
    environ: Mapping[str, str] = field(default_factory=dict, repr=False)


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A block of the configuration: unknown keys are mistakes.

    `REMOVED` of a block has the keys that it once had, and what to do instead.
    """

    def mistakes(self, around: CheckContext) -> Iterator[Mistake]:  # noqa: ARG002 - for subclasses
        """What neither types nor constraints of its keys can express; blocks within are not its."""
        return iter(())


@runtime_checkable
class Constraint(Protocol):
    """What a value has to fulfil; it stands at a key: `Annotated[str, Parsed(parse_address)]`."""

    def problem(self, value: Any) -> str:  # noqa: ANN401 - of the type that it annotates
        """What is wrong with the value and what is allowed; empty if nothing is."""
        ...


@dataclass(frozen=True, slots=True)
class QuantityRange:
    """A quantity from `low` to `high`; None: no upper bound. The bounds are of the key's type."""

    low: float
    high: float | None = None

    def problem(self, value: float) -> str:
        if self.low <= value and (self.high is None or value <= self.high):
            return ""
        if self.high is None:
            return f"must be {written(self.low)} or more"
        return f"must be from {written(self.low)} to {written(self.high)}"


@dataclass(frozen=True, slots=True)
class ParsedText:
    """Text that `parse` takes without a ValueError.

    Empty text means off or the default, unless the key is `required`.
    """

    parse: Callable[[str], object]
    required: bool = False

    def problem(self, value: str) -> str:
        if not value and not self.required:
            return ""
        try:
            self.parse(value)
        except ValueError as error:
            return str(error)
        return ""


@dataclass(frozen=True, slots=True)
class ExistingFile:
    """The path of a file that this user can read, or where `or_folder` of a folder; empty: none."""

    or_folder: bool = False

    def problem(self, value: str) -> str:
        if not value:
            return ""
        path = Path(value)
        try:
            if not path.exists():
                return f"no such file: {value}"
            if not (path.is_file() or (self.or_folder and path.is_dir())):
                return f"{value}: not a regular file"
        except (OSError, ValueError) as error:
            return f"{value}: {getattr(error, 'strerror', None) or error}"
        return "" if os.access(path, os.R_OK) else f"{value}: this user cannot read it"


@dataclass(frozen=True, slots=True)
class WritableFile:
    """The path of a file that this user can write, or make with its folders; empty: none."""

    def problem(self, value: str) -> str:
        path = Path(value).expanduser()
        if value and path.is_dir():
            return f"{value}: a folder, not a file"
        if value and path.exists():
            return "" if os.access(path, os.W_OK) else f"{value}: this user cannot write it"
        return _not_writable(value, path.absolute().parent) if value else ""


@dataclass(frozen=True, slots=True)
class WritableFolder:
    """The path of a folder that this user can write, or make; empty: the default."""

    def problem(self, value: str) -> str:
        return _not_writable(value, Path(value).expanduser().absolute()) if value else ""


def _not_writable(value: str, folder: Path) -> str:
    nearest = next(each for each in (folder, *folder.parents) if each.exists())
    if not nearest.is_dir():
        return f"{value}: {nearest} is not a folder"
    try:  # permissions do not show it: root has all of them, and /proc takes no file
        with tempfile.TemporaryDirectory(prefix=".otel-ofu-", dir=nearest):
            return ""
    except PermissionError:
        return f"{value}: this user cannot write {nearest}"
    except OSError as error:  # a full disk is not a mistake: the agent works in memory then
        return "" if is_full(error) else f"{value}: {nearest} cannot be written: {error.strerror}"


def written(value: object) -> str:
    """A quantity as a user writes it: 0.1 s as `100ms`."""
    if isinstance(value, Duration):
        return _with_unit(value, _UNITS_S)
    if isinstance(value, Size):
        return _with_unit(value, _UNITS_BYTES)
    if isinstance(value, Percent):
        return f"{100 * value:g}%"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _with_unit(value: float, units: Mapping[str, float]) -> str:
    """In the largest unit of which it is a whole number; else in the smallest."""
    if not value:
        return f"0{'s' if 's' in units else 'B'}"
    counts = {unit: round(value / factor, 6) for unit, factor in units.items()}
    fitting = [unit for unit, count in counts.items() if count >= 1 and count.is_integer()]
    unit = (fitting or [*units])[-1 if fitting else 0]
    return f"{value / units[unit]:g}{unit}"


def tried(attempt: Callable[[], object], steps: Steps = ()) -> Iterator[Mistake]:
    """What an attempt fails with, as a mistake at `steps`."""
    try:
        attempt()
    except ValueError as error:
        yield steps, str(error)
    except OSError as error:
        yield steps, f"{error.filename}: {error.strerror}"


def mistakes(settings: Settings, around: CheckContext) -> Iterator[Mistake]:
    """Every mistake in a block and in all blocks within, with its steps from that block."""
    yield from settings.mistakes(around)
    for each in fields(type(settings)):
        steps = (each.encode_name,)
        yield from _value_mistakes(each.type, getattr(settings, each.name), steps, around)


def _value_mistakes(
    type_: Any,  # noqa: ANN401 - any annotation
    value: Any,  # noqa: ANN401 - of that type
    steps: Steps,
    around: CheckContext,
) -> Iterator[Mistake]:
    if get_origin(type_) is Annotated:
        type_, *notes = get_args(type_)
        constraints = [note for note in notes if isinstance(note, Constraint)]
        yield from _constraint_mistakes(constraints, value, steps)
    if value is not None and get_origin(type_) in (Union, UnionType):
        type_ = next(each for each in get_args(type_) if each is not NoneType)
        yield from _value_mistakes(type_, value, steps, around)
    elif isinstance(value, Settings):
        yield from _within(steps, mistakes(value, around))
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from _value_mistakes(_inner(type_, 0), item, (*steps, index), around)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _value_mistakes(_inner(type_, 0), key, (*steps, key, KEY), around)
            yield from _value_mistakes(_inner(type_, 1), item, (*steps, key), around)


def _constraint_mistakes(
    constraints: list[Constraint],
    value: Any,  # noqa: ANN401 - of the type that they annotate
    steps: Steps,
) -> Iterator[Mistake]:
    for constraint in constraints:
        if problem := constraint.problem(value):
            yield steps, problem


def _inner(type_: Any, index: int) -> Any:  # noqa: ANN401 - any annotation
    arguments = get_args(type_)
    return arguments[index] if index < len(arguments) else object


def _within(steps: Steps, found: Iterator[Mistake]) -> Iterator[Mistake]:
    return (((*steps, *deeper), message) for deeper, message in found)
