"""The result of a scan: flags of processes, and what they mean for each device.

Plain frozen values; no I/O.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from otel_ofu.evidence.flags.catalogue import Severity
from otel_ofu.model import Entity, Gap, Observation, Window


@dataclass(frozen=True, slots=True)
class FlagReport:
    """How the last scan went; `scanned_at_s` is None before the first.

    `unread`: processes whose environment is not readable, `wiped` those that overwrote theirs.
    `problems`: one line a cause. `counts`: kind -> how often since the start.
    """

    scanned_at_s: float | None = None
    seconds: float = 0.0
    processes: int = 0
    unread: int = 0
    wiped: int = 0
    problems: tuple[str, ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict)


class FlagSource(StrEnum):
    """Where a flag was seen."""

    ENVIRONMENT = "environment"
    ANCESTOR_ENVIRONMENT = "environment_of_ancestor"
    NCCL_CONF = "nccl_conf"
    DEEPSPEED_CONF = "deepspeed_conf"
    COMMAND_LINE = "command_line"
    ANCESTOR_COMMAND_LINE = "command_line_of_ancestor"
    LIBRARY = "mapped_library"
    STATUS = "status"


class Holder(Protocol):
    """A compute process on a device; pids are the host's."""

    @property
    def device_uuid(self) -> str: ...

    @property
    def pid(self) -> int: ...


@dataclass(frozen=True, slots=True)
class FlagState:
    """A flag that was seen. `name` is its id in flags.yaml.

    `value` is text of flags.yaml, a number, "set", or "set to another value"; nothing else of an
    environment is reported.
    """

    name: str
    value: str
    pid: int
    device_uuid: str
    source: FlagSource
    severity: Severity


@dataclass(frozen=True, slots=True)
class DeviceFlags:
    """By registry key: 1 for seen on some process of the device, 0 for not seen on any.

    What could not be read is a gap.
    """

    values: Mapping[str, float]
    gaps: Mapping[str, Gap]


@dataclass(frozen=True, slots=True)
class FlagScan:
    """`states`: the worst first.

    `ever`: keys that were 1 on some device since the start, for whoever leaves out the rest.
    """

    states: tuple[FlagState, ...] = ()
    devices: Mapping[str, DeviceFlags] = field(default_factory=dict)
    ever: frozenset[str] = frozenset()
    report: FlagReport = field(default_factory=FlagReport)

    def observations(
        self, entities: Mapping[str, Entity], window: Window, *, all_flags: bool = True
    ) -> tuple[Observation, ...]:
        """The flags as metrics of the GPUs whose entities are given, by device UUID.

        `all_flags`: also those that were never seen, as zeros and gaps: for the store; without
        them for export.
        """
        return tuple(self._observed(entities, window, None if all_flags else self.ever))

    def _observed(
        self, entities: Mapping[str, Entity], window: Window, only: frozenset[str] | None
    ) -> Iterator[Observation]:
        for uuid, flags in self.devices.items():
            if uuid in entities:
                values = {k: v for k, v in flags.values.items() if only is None or k in only}
                gaps = {k: g for k, g in flags.gaps.items() if only is None or k in only}
                yield Observation(entities[uuid], window, values, gaps)
