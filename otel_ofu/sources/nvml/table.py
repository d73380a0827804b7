"""The plain counters of NVML as a table: one row for each driver call.

Leaves: for each row the keys, the functions that give them, and the conversion to registry units.
Units of NVML (nvml.h): MHz, mW, mJ, percent, bytes, nanoseconds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any

from otel_ofu.sources.nvml.statuses import FieldRefused

Answer = Any  # what a function of the untyped bindings returns
Convert = Callable[[Answer], tuple[float, ...]]

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
MEMORY_TEMPERATURE_FIELD = 82
_MEMORY_V2 = 0x02000028


class Pace(Enum):
    """How often a call is made: at every read, until it succeeded once, or seldom."""

    EVERY_READ = 0
    ONCE = 1
    SELDOM = 2


@dataclass(frozen=True, slots=True)
class Ask:
    """One driver function with what follows the handle, and its answer in registry units."""

    function: str
    convert: Convert
    arguments: tuple[object, ...] = ()


@dataclass(frozen=True, slots=True)
class Row:
    """Keys that one call gives. `asks`: the newest function first, its predecessors after it."""

    keys: tuple[str, ...]
    asks: tuple[Ask, ...]
    pace: Pace = Pace.EVERY_READ
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
        raise FieldRefused(field.nvmlReturn)
    return (float(getattr(field.value, _FIELD_MEMBERS[field.valueType])),)


def _row(key: str, function: str, convert: Convert, *arguments: object) -> Row:
    return Row((key,), (Ask(function, convert, arguments),))


def _limit(key: str, function: str, convert: Convert, *arguments: object) -> Row:
    return Row((key,), (Ask(function, convert, arguments),), Pace.ONCE)


ROWS = (
    _row("sm_clock", "nvmlDeviceGetClockInfo", _mega, SM_CLOCK),
    _row("mem_clock", "nvmlDeviceGetClockInfo", _mega, MEM_CLOCK),
    _limit("max_sm_clock", "nvmlDeviceGetMaxClockInfo", _mega, SM_CLOCK),
    _limit("max_mem_clock", "nvmlDeviceGetMaxClockInfo", _mega, MEM_CLOCK),
    Row(
        tuple(f"throttled:{reason}" for reason in CLOCK_EVENT_BITS),
        (
            Ask("nvmlDeviceGetCurrentClocksEventReasons", _clock_events),
            Ask("nvmlDeviceGetCurrentClocksThrottleReasons", _clock_events),
        ),
    ),
    _row("throttle_time:power", "nvmlDeviceGetViolationStatus", _violation_s, 0),
    _row("throttle_time:thermal", "nvmlDeviceGetViolationStatus", _violation_s, 1),
    _row("power", "nvmlDeviceGetPowerUsage", _milli),
    _row("power_limit", "nvmlDeviceGetEnforcedPowerLimit", _milli),
    _row("energy", "nvmlDeviceGetTotalEnergyConsumption", _milli),
    Row(
        ("temperature",),
        (
            Ask("nvmlDeviceGetTemperatureV", _plain, (0,)),
            Ask("nvmlDeviceGetTemperature", _plain, (0,)),
        ),
    ),
    _row("mem_temperature", "nvmlDeviceGetFieldValues", _field, (MEMORY_TEMPERATURE_FIELD,)),
    Row(("gpu_util", "mem_copy_util"), (Ask("nvmlDeviceGetUtilizationRates", _utilization),)),
    _row("enc_util", "nvmlDeviceGetEncoderUtilization", _first_percent),
    _row("dec_util", "nvmlDeviceGetDecoderUtilization", _first_percent),
    Row(
        ("mem_used", "mem_total"),
        (
            # Version 2 does not count what the driver reserves as used.
            Ask("nvmlDeviceGetMemoryInfo", _memory, (_MEMORY_V2,)),
            Ask("nvmlDeviceGetMemoryInfo", _memory),
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
    Row(
        (
            "remapped_rows_corrected",
            "remapped_rows_uncorrected",
            "row_remap_pending",
            "row_remap_failure",
        ),
        (Ask("nvmlDeviceGetRemappedRows", _each),),
    ),
    Row(
        ("process_count",),
        (Ask("nvmlDeviceGetComputeRunningProcesses", _count),),
        Pace.SELDOM,
        on_mig=True,
    ),
)
