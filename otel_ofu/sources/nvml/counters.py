"""The plain counters of NVML: a table with one row for each driver call, and when each is made.

Enters: a device handle. Leaves: values in registry units, or the gap of a call that failed.
Units of NVML (nvml.h): MHz, mW, mJ, percent, bytes, nanoseconds.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from functools import partial
from types import ModuleType
from typing import Any

from otel_ofu.model import Gap, GapReason
from otel_ofu.sources.nvml.client import FieldRefusedError, Retry, gap_of
from otel_ofu.sources.nvml.devices import Handle

Answer = Any  # what a function of the untyped bindings returns
Convert = Callable[[Answer], tuple[float, ...]]

# Process lists take the driver's global lock for milliseconds: every 10 s at most, less a margin
# so that a 10 s interval with jitter does not skip every other time.
PROCESS_INTERVAL_S = 9.5

_LATER = Gap(GapReason.NOT_READY, f"read every {PROCESS_INTERVAL_S:g} s")

# Source: nvmlClocksEventReason* of nvml.h.
CLOCK_EVENT_BITS = {
    "gpu_idle": 0x1,
    "applications_clocks_setting": 0x2,
    "sw_power_cap": 0x4,
    "hw_slowdown": 0x8,
    "sync_boost": 0x10,
    "sw_thermal_slowdown": 0x20,
    "hw_thermal_slowdown": 0x40,
    "hw_power_brake_slowdown": 0x80,
    "display_clock_setting": 0x100,
    "board_limit": 0x200,
    "reliability": 0x400,
}
SM_CLOCK, MEM_CLOCK = 1, 2
MEMORY_TEMPERATURE_FIELD = 82  # nvml.h: NVML_FI_DEV_MEMORY_TEMP
_MEMORY_V2 = 0x02000028  # nvml.h: nvmlMemory_v2


class CallInterval(Enum):
    """How often a call is made: at every read, until it succeeded once, or seldom."""

    EVERY_READ = 0
    ONCE = 1
    SELDOM = 2


@dataclass(frozen=True, slots=True)
class NvmlCall:
    """One driver function with what follows the handle, and its answer in registry units."""

    function: str
    convert: Convert
    arguments: tuple[object, ...] = ()


@dataclass(frozen=True, slots=True)
class CounterRow:
    """Keys that one call gives. `calls`: the newest function first, its predecessors after it."""

    keys: tuple[str, ...]
    calls: tuple[NvmlCall, ...]
    pace: CallInterval = CallInterval.EVERY_READ
    on_mig: bool = False


def _mega(value: Answer) -> tuple[float, ...]:
    return (value * 1e6,)


def _milli(value: Answer) -> tuple[float, ...]:
    return (value / 1e3,)


def _plain(value: Answer) -> tuple[float, ...]:
    return (float(value),)


def _each(value: Answer) -> tuple[float, ...]:
    return tuple(map(float, value))


def _first_percent(value: Answer) -> tuple[float, ...]:
    return (value[0] / 100,)


def _utilization(rates: Answer) -> tuple[float, ...]:
    return (rates.gpu / 100, rates.memory / 100)


def _memory(memory: Answer) -> tuple[float, ...]:
    return (float(memory.used), float(memory.total))


def _violation_s(status: Answer) -> tuple[float, ...]:
    return (status.violationTime / 1e9,)


def _clock_events(mask: Answer) -> tuple[float, ...]:
    return tuple(float(mask & bit != 0) for bit in CLOCK_EVENT_BITS.values())


def _count(items: Answer) -> tuple[float, ...]:
    return (float(len(items)),)


# Source: enum nvmlValueType_t and union nvmlValue_t of nvml.h.
_FIELD_MEMBERS = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")


def _field(fields: Answer) -> tuple[float, ...]:
    field = fields[0]
    if field.nvmlReturn:
        raise FieldRefusedError(field.nvmlReturn)
    return (float(getattr(field.value, _FIELD_MEMBERS[field.valueType])),)


def _row(key: str, function: str, convert: Convert, *arguments: object) -> CounterRow:
    return CounterRow((key,), (NvmlCall(function, convert, arguments),))


def _limit(key: str, function: str, convert: Convert, *arguments: object) -> CounterRow:
    return CounterRow((key,), (NvmlCall(function, convert, arguments),), CallInterval.ONCE)


ROWS = (
    _row("sm_clock", "nvmlDeviceGetClockInfo", _mega, SM_CLOCK),
    _row("mem_clock", "nvmlDeviceGetClockInfo", _mega, MEM_CLOCK),
    _limit("max_sm_clock", "nvmlDeviceGetMaxClockInfo", _mega, SM_CLOCK),
    _limit("max_mem_clock", "nvmlDeviceGetMaxClockInfo", _mega, MEM_CLOCK),
    CounterRow(
        tuple(f"throttled:{reason}" for reason in CLOCK_EVENT_BITS),
        (
            NvmlCall("nvmlDeviceGetCurrentClocksEventReasons", _clock_events),
            NvmlCall("nvmlDeviceGetCurrentClocksThrottleReasons", _clock_events),
        ),
    ),
    _row("throttle_time:power", "nvmlDeviceGetViolationStatus", _violation_s, 0),
    _row("throttle_time:thermal", "nvmlDeviceGetViolationStatus", _violation_s, 1),
    _row("power", "nvmlDeviceGetPowerUsage", _milli),
    _row("power_limit", "nvmlDeviceGetEnforcedPowerLimit", _milli),
    _row("energy", "nvmlDeviceGetTotalEnergyConsumption", _milli),
    CounterRow(
        ("temperature",),
        (
            NvmlCall("nvmlDeviceGetTemperatureV", _plain, (0,)),
            NvmlCall("nvmlDeviceGetTemperature", _plain, (0,)),
        ),
    ),
    _row("mem_temperature", "nvmlDeviceGetFieldValues", _field, (MEMORY_TEMPERATURE_FIELD,)),
    CounterRow(
        ("gpu_util", "mem_copy_util"), (NvmlCall("nvmlDeviceGetUtilizationRates", _utilization),)
    ),
    _row("enc_util", "nvmlDeviceGetEncoderUtilization", _first_percent),
    _row("dec_util", "nvmlDeviceGetDecoderUtilization", _first_percent),
    CounterRow(
        ("mem_used", "mem_total"),
        (
            # Version 2 does not count what the driver reserves as used.
            NvmlCall("nvmlDeviceGetMemoryInfo", _memory, (_MEMORY_V2,)),
            NvmlCall("nvmlDeviceGetMemoryInfo", _memory),
        ),
        on_mig=True,
    ),
    _row("pcie_link_gen", "nvmlDeviceGetCurrPcieLinkGeneration", _plain),
    _row("pcie_link_width", "nvmlDeviceGetCurrPcieLinkWidth", _plain),
    _limit("pcie_max_link_gen", "nvmlDeviceGetMaxPcieLinkGeneration", _plain),
    _limit("pcie_max_link_width", "nvmlDeviceGetMaxPcieLinkWidth", _plain),
    _row("pcie_replays", "nvmlDeviceGetPcieReplayCounter", _plain),
    _row("ecc_corrected", "nvmlDeviceGetTotalEccErrors", _plain, 0, 0),
    _row("ecc_uncorrected", "nvmlDeviceGetTotalEccErrors", _plain, 1, 0),
    CounterRow(
        (
            "remapped_rows_corrected",
            "remapped_rows_uncorrected",
            "row_remap_pending",
            "row_remap_failure",
        ),
        (NvmlCall("nvmlDeviceGetRemappedRows", _each),),
    ),
    CounterRow(
        ("process_count",),
        (NvmlCall("nvmlDeviceGetComputeRunningProcesses", _count),),
        CallInterval.SELDOM,
        on_mig=True,
    ),
)


class NvmlCounter:
    """One row on one device: its call, unless the driver does not know it or it is not due."""

    def __init__(self, nvml: ModuleType, handle: Handle, row: CounterRow) -> None:
        self._nvml = nvml
        self._row = row
        # Bound once, for these run at every tick. Older bindings lack newer functions.
        self._calls = [
            (call, partial(getattr(nvml, call.function), handle, *call.arguments))
            for call in row.calls
            if hasattr(nvml, call.function)
        ]
        self._retry = Retry()
        self._kept: tuple[float, ...] | None = None
        self._last_s = -math.inf

    @property
    def keys(self) -> tuple[str, ...]:
        return self._row.keys

    def read(self, values: dict[str, float], gaps: dict[str, Gap], monotonic_s: float) -> None:
        """Adds a value or a gap for each key; a seldom call that is not due is `not_ready`.

        Raises `DeviceLost` and `SourceError`.
        """
        answer = self._kept or (self._answer(monotonic_s) if self._due(monotonic_s) else _LATER)
        if isinstance(answer, Gap):
            gaps.update(dict.fromkeys(self._row.keys, answer))
            return
        values.update(zip(self._row.keys, answer, strict=True))
        if self._row.pace is CallInterval.ONCE:
            self._kept = answer

    def _due(self, monotonic_s: float) -> bool:
        if self._row.pace is not CallInterval.SELDOM:
            return True
        if monotonic_s - self._last_s < PROCESS_INTERVAL_S:
            return False
        self._last_s = monotonic_s
        return True

    def _answer(self, monotonic_s: float) -> tuple[float, ...] | Gap:
        standing = self._retry.standing(monotonic_s)
        if standing:
            return standing
        gap = Gap(GapReason.NOT_SUPPORTED, f"{self._row.calls[0].function}: not in these bindings")
        while self._calls:
            call, function = self._calls[0]
            try:
                answer = call.convert(function())
            except (self._nvml.NVMLError, FieldRefusedError) as error:
                gap = gap_of(self._nvml, error.value, call.function)
            else:
                self._retry.succeeded()
                return answer
            if gap.reason is not GapReason.NOT_SUPPORTED:
                break
            self._calls.pop(0)
        self._retry.failed(gap, monotonic_s)
        return gap


def counters_of(nvml: ModuleType, handle: Handle, *, mig: bool) -> list[NvmlCounter]:
    """The counters of a GPU, or the few that a MIG device has for itself."""
    return [NvmlCounter(nvml, handle, row) for row in ROWS if row.on_mig or not mig]
