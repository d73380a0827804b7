"""The column map: what the columns of somebody else's CSV mean.

Enters: a YAML file (config/columns/ has examples, docs/recording-format.md explains the keys).
Leaves: `ColumnMap`, or a `ConfigError` with every mistake.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from otel_ofu.catalog.registry import Registry, load_registry
from otel_ofu.files.yaml import Steps, YamlFile, convert, read_yaml
from otel_ofu.model import Device, GapReason
from otel_ofu.model.errors import ConfigError, Problem

UNITS = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}

DeviceField = Literal[
    "uuid", "index", "model", "vendor", "pci_address", "serial", "driver_version",
    "architecture", "host",
]  # fmt: skip


class TimeColumn(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where the time stands: the end of the row's window, since 1970 in this unit."""

    column: str
    unit: Literal["s", "ms", "us", "ns"]


class Column(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
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
    columns: dict[str, Column]
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
    columns = convert(file, ColumnMap)
    if problems := list(_wrong(file, columns, load_registry())):
        raise ConfigError(problems)
    return columns


def _wrong(file: YamlFile, columns: ColumnMap, registry: Registry) -> Iterator[Problem]:
    yield from _wrong_keys(file, columns, registry)
    yield from _wrong_constants(file, columns, registry)
    yield from _wrong_device(file, columns)


def _wrong_keys(file: YamlFile, columns: ColumnMap, registry: Registry) -> Iterator[Problem]:
    places: list[tuple[Steps, str]] = [
        (("columns", name, "key"), column.key) for name, column in columns.columns.items()
    ]
    places += [(("constants", key), key) for key in columns.constants]
    seen: set[str] = set()
    for steps, key in places:
        if not _recordable(registry, key):
            yield file.problem(steps, f"no metric {key!r} that a source could read")
        elif key in seen:
            yield file.problem(steps, f"{key!r} is there twice")
        seen.add(key)


def _wrong_constants(file: YamlFile, columns: ColumnMap, registry: Registry) -> Iterator[Problem]:
    for key, value in columns.constants.items():
        if _recordable(registry, key) and (gap := registry.check(key, value)):
            yield file.problem(("constants", key), f"{gap.detail} is not possible")


def _wrong_device(file: YamlFile, columns: ColumnMap) -> Iterator[Problem]:
    if "uuid" not in {*columns.device, *columns.device_columns}:
        yield file.problem((), "no device: give `uuid` in `device` or in `device_columns`")
    for name in sorted({*columns.device} & {*columns.device_columns}):
        yield file.problem(("device", name), f"{name!r} is in `device_columns` as well")
    try:
        msgspec.convert({"uuid": "", **columns.device}, Device)
    except msgspec.ValidationError as error:
        yield file.problem(("device",), str(error))


def _recordable(registry: Registry, key: str) -> bool:
    try:
        registry.point_attributes(key)
    except (KeyError, ValueError):
        return False
    metric = registry.metric(key)
    return metric.entity == "gpu" and not metric.derived
