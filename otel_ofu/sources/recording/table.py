"""Reads a CSV by a column map, tick by tick.

Enters: a CSV with a header row and rows in order of time; and what its columns mean, a YAML file
(config/columns/ has examples, docs/recording-format.md explains the keys). Leaves: ticks, each the
readings of the rows that stand together and have one time; a `ConfigError` with every mistake.
"""

from __future__ import annotations

import csv
import gzip
import math
import zlib
from collections.abc import Iterator
from io import TextIOWrapper
from itertools import groupby
from pathlib import Path
from typing import Annotated, Literal, TextIO

import msgspec

from otel_ofu.catalog.registry import Registry, load_registry
from otel_ofu.files.yaml import Steps, YamlFile, convert_usable, read_yaml
from otel_ofu.model import Device, Gap, GapReason, Reading, Window
from otel_ofu.model.errors import ConfigError, Problem
from otel_ofu.model.validation import in_plain_words
from otel_ofu.sources.recording.read import GZIP, Tick

UNITS = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}

DeviceField = Literal[
    "uuid", "index", "model", "vendor", "pci_address", "serial", "driver_version",
    "architecture", "host",
]  # fmt: skip


class TimeColumn(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where the time stands: the end of the row's window, since 1970 in this unit."""

    column: str
    unit: Literal["s", "ms", "us", "ns"]


class MappedColumn(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The registry key of a column, and the factor to the registry's unit."""

    key: str
    scale: float = 1.0


class ColumnMap(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All that is known of the columns.

    `device` holds what is equal for all rows, `device_columns` where the rest stands.
    `window_s` is the time that a row speaks about; None: since the device's row before.
    `constants` are values that were not recorded, in the registry's unit. A cell that is one of
    `absent` becomes a gap with `absent_reason`.
    """

    time: TimeColumn
    columns: dict[str, MappedColumn]
    device: dict[DeviceField, str | int] = {}
    device_columns: dict[DeviceField, str] = {}
    window_s: Annotated[float, msgspec.Meta(gt=0)] | None = None
    source: str = "recording"
    constants: dict[str, float] = {}
    absent: tuple[str, ...] = ("", "N/A", "[N/A]", "nan", "NaN")
    absent_reason: GapReason = GapReason.NOT_READY

    def names(self) -> list[str]:
        """The columns that a file must have, each once."""
        used = [self.time.column, *self.device_columns.values(), *self.columns]
        return list(dict.fromkeys(used))


def read_column_map(path: str | Path) -> ColumnMap:
    """Raises `ConfigError` with file:line:column for each mistake."""
    file = read_yaml(path)
    columns, problems = convert_usable(file, ColumnMap)
    problems += _wrong(file, columns, load_registry())
    if problems:
        raise ConfigError(problems)
    return columns


def _wrong(file: YamlFile, columns: ColumnMap, registry: Registry) -> Iterator[Problem]:
    yield from _wrong_keys(file, columns, registry)
    yield from _wrong_constants(file, columns, registry)
    yield from _wrong_device(file, columns)


def _wrong_keys(file: YamlFile, columns: ColumnMap, registry: Registry) -> Iterator[Problem]:
    positions: list[tuple[Steps, str]] = [
        (("columns", name, "key"), column.key) for name, column in columns.columns.items()
    ]
    positions += [(("constants", key), key) for key in columns.constants]
    seen: set[str] = set()
    for steps, key in positions:
        if not _recordable(registry, key):
            yield file.problem(steps, f"no metric {key!r} that a source could read")
        elif key in seen:
            yield file.problem(steps, f"{key!r} is there twice")
        seen.add(key)


def _wrong_constants(file: YamlFile, columns: ColumnMap, registry: Registry) -> Iterator[Problem]:
    for key, value in columns.constants.items():
        if _recordable(registry, key) and (gap := registry.check(key, value)):
            yield file.problem(("constants", key), gap.detail)


def _wrong_device(file: YamlFile, columns: ColumnMap) -> Iterator[Problem]:
    if "uuid" not in {*columns.device, *columns.device_columns}:
        yield file.problem((), "no device: give `uuid` in `device` or in `device_columns`")
    for name in sorted({*columns.device} & {*columns.device_columns}):
        yield file.problem(("device", name), f"{name!r} is in `device_columns` as well")
    try:
        msgspec.convert({"uuid": "", **columns.device}, Device)
    except msgspec.ValidationError as error:
        yield file.problem(("device",), in_plain_words(error))


def _recordable(registry: Registry, key: str) -> bool:
    try:
        registry.point_attributes(key)
    except (KeyError, ValueError):
        return False
    metric = registry.metric(key)
    return metric.entity == "gpu" and not metric.derived


Row = dict[str, str]

_HEADER = b'{"line":"header"'


class TableReader:
    """One pass over one CSV. Raises `ConfigError` for missing columns at once, and at bad cells.

    `notes` has what was left out: a last row that was cut off.
    """

    def __init__(self, path: str | Path, columns: ColumnMap) -> None:
        self._path = str(path)
        self._columns = columns
        self._registry = load_registry()
        self.notes: list[str] = []
        self._devices: dict[tuple[str, ...], Device] = {}
        self._times_s: dict[str, float] = {}
        self._file = _open(Path(path))
        self._rows = csv.reader(self._file)
        try:
            self._names = self._header()
        except ConfigError:
            self._file.close()
            raise

    def ticks(self) -> Iterator[Tick]:
        """All ticks; the file is closed after the last."""
        with self._file:
            for _, tick in groupby(self._readings(), key=lambda r: r.window.end_s):
                yield list(tick)

    def close(self) -> None:
        self._file.close()

    def _header(self) -> list[str]:
        names = [name.strip() for name in self._next() or ()]
        missing = [name for name in self._columns.names() if name not in names]
        if missing:
            there = ", ".join(names) or "none"
            raise self._error(f"no column {', '.join(map(repr, missing))}; columns: {there}")
        twice = [name for name in self._columns.names() if names.count(name) > 1]
        if twice:
            raise self._error(f"column {', '.join(map(repr, twice))} is there twice")
        return names

    def _readings(self) -> Iterator[Reading]:
        row = self._next()
        while row is not None:
            cells, line = row, self._rows.line_num
            row = self._next()
            if len(cells) < len(self._names) and row is None:
                self.notes.append(f"{self._path}:{line}: cut off; this row is left out")
            elif len(cells) != len(self._names):
                raise self._error(f"{len(cells)} cells under {len(self._names)} columns", line)
            else:
                yield self._reading(dict(zip(self._names, cells, strict=True)), line)

    def _next(self) -> list[str] | None:
        """The next row that is not blank; None after the last."""
        try:
            return next((row for row in self._rows if row), None)
        except csv.Error as error:
            raise self._error(str(error), self._rows.line_num) from error
        except (UnicodeDecodeError, OSError) as error:
            raise self._error(f"cannot be read: {error}", 0) from error

    def _reading(self, row: Row, line: int) -> Reading:
        device = self._device(row, line)
        values = dict(self._columns.constants)
        gaps: dict[str, Gap] = {}
        for name, column in self._columns.columns.items():
            found = self._metric(row[name], name, column, line)
            if isinstance(found, Gap):
                gaps[column.key] = found
            else:
                values[column.key] = found
        window = self._window(device, row, line)
        return Reading(device, window, self._columns.source, values, gaps)

    def _metric(self, cell: str, name: str, column: MappedColumn, line: int) -> float | Gap:
        value = self._value(cell, name, line)
        if isinstance(value, Gap):
            return value
        scaled = value * column.scale
        return self._registry.check(column.key, scaled) or scaled

    def _value(self, cell: str, name: str, line: int) -> float | Gap:
        text = cell.strip()
        if text in self._columns.absent:
            return Gap(self._columns.absent_reason, text)
        try:
            return float(text)
        except ValueError as error:
            raise self._error(f"column {name!r}: {text!r} is not a number", line) from error

    def _device(self, row: Row, line: int) -> Device:
        cells = tuple(row[name].strip() for name in self._columns.device_columns.values())
        if cells not in self._devices:
            named = dict(zip(self._columns.device_columns, cells, strict=True))
            try:
                self._devices[cells] = msgspec.convert(
                    {**self._columns.device, **named}, Device, strict=False
                )
            except msgspec.ValidationError as error:
                raise self._error(f"device {named}: {error}", line) from error
        return self._devices[cells]

    def _window(self, device: Device, row: Row, line: int) -> Window:
        time = self._columns.time
        end_s = self._value(row[time.column], time.column, line)
        if isinstance(end_s, Gap) or not math.isfinite(end_s):
            raise self._error(f"column {time.column!r}: a row without a time", line)
        end_s /= UNITS[time.unit]
        before_s = self._times_s.get(device.uuid)
        if before_s is not None and end_s <= before_s:
            raise self._error(f"{device.uuid}: the time does not go on after the row before", line)
        self._times_s[device.uuid] = end_s
        if self._columns.window_s is not None:
            return Window(end_s - self._columns.window_s, end_s)
        return Window(end_s if before_s is None else before_s, end_s)

    def _error(self, message: str, line: int = 1) -> ConfigError:
        return ConfigError([Problem(self._path, line, 1, message)])


def _open(path: Path) -> TextIO:
    try:
        file = path.open("rb")
        # Not opened a second time: a pipe gives its bytes once.
        why = _no_table(path, file.peek(len(_HEADER)))
    except OSError as error:
        raise ConfigError(
            [Problem(str(path), 0, 0, f"cannot be read: {error.strerror}")]
        ) from error
    if why:
        file.close()
        raise ConfigError([Problem(str(path), 0, 0, why)])
    return TextIOWrapper(file, encoding="utf-8-sig", newline="")


def _no_table(path: Path, start: bytes) -> str:
    """Why a file is not a CSV, as far as its first bytes show; empty if it may be one."""
    if start.startswith(_HEADER):
        return "this is a recording, not a CSV: leave out --columns"
    if not start.startswith(GZIP):
        return ""
    try:
        with gzip.open(path, "rb") as packed:
            start = packed.read(len(_HEADER))
    except (OSError, EOFError, zlib.error):
        start = b""
    if start == _HEADER:
        return "this is a recording (gzip), not a CSV: leave out --columns"
    return "this is gzip, not a CSV: unpack it first"
