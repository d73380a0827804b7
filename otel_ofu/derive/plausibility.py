"""Counters of one GPU that contradict each other: which of them is a gap, with both numbers.

Enters: the possible values of a reading. Leaves: them without what cannot be true, a gap
`implausible` in its place, and one `implausible:<check>` for each check that found something.

A contradiction tells that one of two counters lies, not always which. The activities give way to
utilization and power, because profiling is what stops unnoticed.
Source: NVIDIA/DCGM issues 16 and 303, NVIDIA/dcgm-exporter issue 662 (profiling counters at 0
while the GPU works, after XID 31 or a lost profiling session).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from otel_ofu.derive.cleaning import MeasuredValues
from otel_ofu.model import Gap, GapReason, Window

ACTIVITIES = (
    "gr_engine_active",
    "sm_active",
    "sm_occupancy",
    "tensor_active",
    "tensor_hmma_active",
    "tensor_imma_active",
    "tensor_dfma_active",
    "fp64_active",
    "fp32_active",
    "fp16_active",
    "int_active",
    "dram_active",
)
WITNESSES = ("gr_engine_active", "sm_active")
"""A kernel that runs shows in these at once, whatever it does."""

# Starting values. One kernel on one SM is 100 % utilization at some 30 % of the power limit and a
# small but not an absent SM activity; half of the limit is drawn by work on most of the GPU.
BUSY = 0.9
POWER_SHARE = 0.5
LOADED = 0.5
COLD_C, WARM_C = 0.0, 20.0
"""A memory without a sensor is reported at 0 degC. Source: nvml.h, NVML_FI_DEV_MEMORY_TEMP."""

# Starting values: shares of cycles are measured to six digits and more, so three of them and the
# power in milliwatts do not repeat for ten minutes, whatever the job does.
STUCK_S = 600.0
STUCK_COUNTERS = 3
STEADY = (*ACTIVITIES, "power")


class PlausibilityChecker:
    """Holds, for one GPU, since when its counters have not moved. Belongs to one thread."""

    def __init__(self) -> None:
        self._steady: tuple[float, ...] = ()
        self._since_s = 0.0

    def check(self, measured: MeasuredValues, window: Window) -> None:
        """Replaces what cannot be true. A window may be given more than once."""
        values = measured.values
        stuck_s = self._stuck_s(values, window)
        if stuck_s >= STUCK_S:
            why = f"no counter has moved for {stuck_s:.0f} s"
            _doubt(measured, "stuck", [key for key in STEADY if values.get(key)], why)
        for name, keys, why in _contradictions(values):
            _doubt(measured, name, keys, why)

    def _stuck_s(self, values: Mapping[str, float], window: Window) -> float:
        """For how long the counters that move with any work have been the same; 0 while idle."""
        steady = tuple(values.get(key, 0.0) for key in STEADY)
        if steady != self._steady:
            self._steady, self._since_s = steady, window.start_s
            return 0.0
        moving = sum(0 < value < 1 for value in steady[:-1])
        if moving < STUCK_COUNTERS or not steady[-1]:
            return 0.0
        return window.end_s - self._since_s


def _contradictions(values: Mapping[str, float]) -> Iterable[tuple[str, Iterable[str], str]]:
    """Name of the check, the keys that give way, and both numbers."""
    util, power = values.get("gpu_util", 0.0), values.get("power")
    if util >= LOADED and power == 0:
        yield "power", ["power"], f"0 W at {util:.0%} utilization"
    if util >= BUSY and _idle(values) and _draws(power, values.get("power_limit")):
        drawn = "" if power is None else f" and {power:.0f} W"
        yield "activity", ACTIVITIES, f"every activity is 0 at {util:.0%} utilization{drawn}"
    used, total = values.get("mem_used"), values.get("mem_total")
    if used is not None and total is not None and used > total:
        yield "memory", ["mem_used"], f"{used:.0f} of {total:.0f} bytes used"
    cold, board = values.get("mem_temperature"), values.get("temperature")
    if cold == COLD_C and board is not None and board >= WARM_C:
        yield "temperature", ["mem_temperature"], f"0 degC beside a GPU at {board:.0f} degC"


def _idle(values: Mapping[str, float]) -> bool:
    known = [values[key] for key in ACTIVITIES if key in values]
    return not any(known) and any(key in values for key in WITNESSES)


def _draws(power: float | None, limit: float | None) -> bool:
    """Whether it draws what work draws; what is not known contradicts nothing."""
    return not power or limit is None or power >= POWER_SHARE * limit


def _doubt(measured: MeasuredValues, name: str, keys: Iterable[str], why: str) -> None:
    gap = Gap(GapReason.IMPLAUSIBLE, why)
    for key in keys:
        if measured.values.pop(key, None) is not None:
            measured.gaps[key] = gap
    measured.values[f"implausible:{name}"] = 1.0
