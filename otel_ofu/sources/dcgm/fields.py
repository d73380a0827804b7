"""Which fields to ask DCGM for: enters the registry, leaves fields in order of importance.

Fields by number, never by name: names changed in 4.6, numbers did not.
Source: dcgm_fields.h; bits of field 112: nvml.h, nvmlClocksEventReasons.
"""

from __future__ import annotations

from dataclasses import dataclass

from otel_ofu.catalog.registry import Registry
from otel_ofu.sources.dcgm.blocks import SM_CLOCK, XID
from otel_ofu.sources.dcgm.profiling import TENSOR_ACTIVE, is_profiling

MAX_SM_CLOCK = 113
EVENT_REASONS = 112

_OFU_FIRST = (TENSOR_ACTIVE, SM_CLOCK, MAX_SM_CLOCK)
_NANOSECONDS = 1e-9

REASON_BITS = {
    1 << 0: "gpu_idle",
    1 << 1: "applications_clocks_setting",
    1 << 2: "sw_power_cap",
    1 << 3: "hw_slowdown",
    1 << 4: "sync_boost",
    1 << 5: "sw_thermal_slowdown",
    1 << 6: "hw_thermal_slowdown",
    1 << 7: "hw_power_brake_slowdown",
    1 << 8: "display_clock_setting",
    1 << 9: "board_limit",
    1 << 10: "reliability",
}
_VIOLATIONS = {
    240: "power",
    241: "thermal",
    242: "sync_boost",
    243: "board_limit",
    244: "low_utilization",
    245: "reliability",
    246: "applications_clocks_setting",
}


@dataclass(frozen=True, slots=True)
class Field:
    """One DCGM field: the registry keys that it fills and the factor to their unit.

    `is_mean` for values that are averages or change within a tick: several samples are averaged.
    """

    id: int
    keys: tuple[str, ...]
    scale: float
    is_mean: bool = False


def fields(registry: Registry, *, with_profiling: bool = True) -> tuple[Field, ...]:
    """All fields that fill a key of the registry; those that OFU needs stand first."""
    found = {f: _field(registry, f, key) for f, key in registry.by_dcgm_id.items()}
    found |= {f: Field(f, (f"throttle_time:{r}",), _NANOSECONDS) for f, r in _VIOLATIONS.items()}
    found[EVENT_REASONS] = Field(
        EVENT_REASONS, tuple(f"throttled:{r}" for r in REASON_BITS.values()), 1
    )
    found[XID] = Field(XID, (), 1)
    order = dict.fromkeys((*_OFU_FIRST, *found))
    return tuple(found[f] for f in order if with_profiling or not is_profiling(f))


def _field(registry: Registry, field_id: int, key: str) -> Field:
    metric = registry.metrics[key]
    scale = metric.dcgm.scale if metric.dcgm else 1
    is_mean = metric.kind == "gauge" and (is_profiling(field_id) or field_id == SM_CLOCK)
    return Field(field_id, (key,), scale, is_mean)
