"""Which fields to ask DCGM for, and which of them a GPU or MIG instance can take together.

Enters: the registry, metric groups of an engine. Leaves: fields in order of importance, and a
`FieldChoice` of profiling fields. Fields by number, never by name: names changed in 4.6, numbers
did not. Source: dcgm_fields.h; bits of field 112: nvml.h, nvmlClocksEventReasons. Profiling: DCGM's
feature overview, "Profiling Metrics": groups of one major id and other minor ids take turns on
Volta to Ada, and the values are extrapolated. Hopper and later take all together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from otel_ofu.model import GapReason
from otel_ofu.model.reading import MULTIPLEXED
from otel_ofu.sources.dcgm.codes import DcgmTrouble
from otel_ofu.sources.dcgm.engine import COMPUTE_INSTANCE, GPU, GPU_INSTANCE, MetricGroup

if TYPE_CHECKING:  # the child process does without the catalogue
    from otel_ofu.catalog.registry import Registry

TENSOR_ACTIVE = 1004
SM_CLOCK = 100
MAX_SM_CLOCK = 113
EVENT_REASONS = 112
CLOCKS = frozenset({SM_CLOCK, 101, 113, 114})
"""A MIG instance has none of its own: those of its GPU hold for it."""

XID = 230
FAST = frozenset({SM_CLOCK, EVENT_REASONS, XID})
"""Sampled more often than the rest: what changes within a tick. XIDs are recorded as they come."""
GR_ENGINE_ACTIVE = 1001
_OF_TIME = frozenset({GR_ENGINE_ACTIVE, 1005, *range(1009, 1013)})
"""Profiling values that are means over time; the others are shares of elapsed SM cycles. Source:
DCGM's feature overview: the graphics engine is active for a share of time, DRAM has a clock of its
own, PCIe and NVLink are bytes per second."""
_TOTALS = frozenset(range(1084, 1097))
_MEMORY = frozenset({250, 251, 252, 253})
_DRAM_ACTIVE = 1005
_WHOLE_GPU = frozenset({1009, 1010, 1011, 1012, *range(1084, 1097)})
ESSENTIAL = (TENSOR_ACTIVE, 1001, 1002, 1005)
"""What OFU and its first explanations need; asked for alone when all is too much."""

_GPM_ARCHITECTURES = frozenset({"hopper", "blackwell"})
_FIRST, _LAST = 1001, 1199

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


FieldKind = Literal["share", "mean", "state", "total"]


@dataclass(frozen=True, slots=True)
class Field:
    """One DCGM field: the registry keys that it fills and the factor to their unit.

    `kind` is what a sample says: a `share` of the SM cycles since the sample before it, a `mean`
    over the time since then, the `state` at its time, or the `total` up to then.
    """

    id: int
    keys: tuple[str, ...]
    scale: float
    kind: FieldKind = "state"


def fields(registry: Registry, *, with_profiling: bool = True) -> tuple[Field, ...]:
    """All fields that fill a key of the registry; those that OFU needs stand first."""
    found = {f: _field(registry, f, key) for f, key in registry.by_dcgm_id.items()}
    found |= {
        f: Field(f, (f"throttle_time:{r}",), _NANOSECONDS, "total") for f, r in _VIOLATIONS.items()
    }
    found[EVENT_REASONS] = Field(
        EVENT_REASONS, tuple(f"throttled:{r}" for r in REASON_BITS.values()), 1, "mean"
    )
    found[XID] = Field(XID, (), 1)
    order = dict.fromkeys((*_OFU_FIRST, *found))
    return tuple(found[f] for f in order if with_profiling or not is_profiling(f))


def _field(registry: Registry, field_id: int, key: str) -> Field:
    metric = registry.metrics[key]
    scale = metric.dcgm.scale if metric.dcgm else 1
    return Field(field_id, (key,), scale, _kind(field_id, is_total=metric.kind == "counter"))


def _kind(field_id: int, *, is_total: bool) -> FieldKind:
    if is_total:
        return "total"
    if not is_profiling(field_id):
        return "state"
    return "mean" if field_id in _OF_TIME else "share"


@dataclass(frozen=True, slots=True)
class FieldChoice:
    """Fields to watch, in the order asked for, and why each of the others is not."""

    taken: tuple[int, ...]
    left: Mapping[int, str]


def is_profiling(field_id: int) -> bool:
    return _FIRST <= field_id <= _LAST


def has_history(field_id: int) -> bool:
    """Whether every sample of a field counts, and not only the newest."""
    return field_id in FAST or (is_profiling(field_id) and field_id not in _TOTALS)


def has_level(field_id: int, level: int) -> bool:
    """Whether entities of a level can have a field. Source: levels in dcgm_fields.h."""
    if level == GPU:
        return True
    measured = is_profiling(field_id) and field_id not in _WHOLE_GPU
    if level == GPU_INSTANCE:
        return measured or field_id in _MEMORY
    return level == COMPUTE_INSTANCE and measured and field_id != _DRAM_ACTIVE


def absent_at(level: int) -> DcgmTrouble:
    """Why a MIG instance lacks a field that its GPU has."""
    if level == COMPUTE_INSTANCE:
        return DcgmTrouble(
            GapReason.NOT_SUPPORTED, "counted for the GPU instance, which is shared, or for the GPU"
        )
    return DcgmTrouble(GapReason.NOT_SUPPORTED, "counted for the whole GPU only")


def choose(wanted: Sequence[int], groups: Sequence[MetricGroup]) -> FieldChoice:
    """Fields that never take turns; whatever stands first in `wanted` wins."""
    bound: dict[int, int] = {}
    first: dict[int, int] = {}
    taken: list[int] = []
    left: dict[int, str] = {}
    for field_id in wanted:
        homes = [g for g in groups if field_id in g.fields]
        home = next((g for g in homes if bound.get(g.major, g.minor) == g.minor), None)
        if home is not None:
            bound[home.major] = home.minor
            first.setdefault(home.major, field_id)
            taken.append(field_id)
        elif homes:
            left[field_id] = f"cannot be watched together with field {first[homes[0].major]}"
        else:
            left[field_id] = "this GPU has no such counter"
    return FieldChoice(tuple(taken), left)


def attempts(fields: Sequence[int]) -> list[tuple[int, ...]]:
    """What to ask for, one after the other, while the engine answers that it is too much."""
    essential = tuple(f for f in fields if f in ESSENTIAL)
    alone = tuple(f for f in fields if f == TENSOR_ACTIVE)
    return [a for a in dict.fromkeys([tuple(fields), essential, alone]) if a]


def backend(groups: Sequence[MetricGroup], architecture: str, gpm: bool | None) -> str:  # noqa: FBT001 - a fact of the GPU, not an option
    """`gpm` or `multiplexed`; asked of the GPU where the engine knows (4.x), else inferred."""
    if gpm is None:
        takes_turns = len({g.major for g in groups}) < len(groups)
        return MULTIPLEXED if takes_turns and architecture not in _GPM_ARCHITECTURES else "gpm"
    return "gpm" if gpm else MULTIPLEXED
