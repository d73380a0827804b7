"""What a source measured, without what cannot be: each impossible value becomes a gap.

Enters: a `Reading`. Leaves: its values and gaps, disjoint; no sentinel, no NaN, nothing clamped.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from otel_ofu.catalog.registry import Registry
from otel_ofu.model import Gap, GapReason, Reading

# Blanks of DCGM (dcgm_structs.h): BLANK, NOT_FOUND, NOT_SUPPORTED, NOT_PERMISSIONED. As floats the
# four of int64 are one number, 2**63; no counter comes near it. A counter may pass 2**47, and a
# clock in Hz may pass 2**31, so those tests are narrower.
# Source: DCGM_INT32_BLANK, DCGM_INT64_BLANK, DCGM_FP64_BLANK.
INT64_BLANK = 9.2e18
FP64_BLANK = 2.0**47
INT32_BLANKS = frozenset(float(0x7FFFFFF0 + i) for i in range(4))

CLOCKS = ("sm_clock", "max_sm_clock")


@dataclass(slots=True)
class Measured:
    """Values and gaps of one reading, disjoint by key."""

    values: dict[str, float]
    gaps: dict[str, Gap]

    def gap(self, key: str) -> Gap:
        """Why `key` has no value."""
        return self.gaps.get(key) or Gap(GapReason.NOT_SUPPORTED, f"the source gives no {key}")


_Limits = tuple[float, float, bool]


class Cleaner:
    """Checks against the registry, which never changes."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._derived = {key for key, metric in registry.metrics.items() if metric.derived}
        self._limits: dict[str, _Limits] = {
            key: (
                float("-inf") if metric.range[0] is None else metric.range[0],
                float("inf") if metric.range[1] is None else metric.range[1],
                metric.kind == "counter",
            )
            for key, metric in registry.metrics.items()
        }

    def clean(self, reading: Reading, parent: Reading | None = None) -> Measured:
        """The reading's measured values and gaps; clocks that it lacks come from its parent."""
        measured = Measured({}, {k: g for k, g in reading.gaps.items() if k not in self._derived})
        for key, value in reading.values.items():
            self._take(measured, key, value)
        if parent is not None:
            self._inherit_clocks(measured, parent)
        _check_clock_while_busy(measured)
        return measured

    def _take(self, measured: Measured, key: str, value: float) -> None:
        base = key.partition(":")[0]
        if key in measured.gaps or base in self._derived:
            return
        limits = self._limits.get(base)
        if limits is None:
            measured.gaps[key] = Gap(GapReason.FAILED, "no such metric in the registry")
        elif self._is_possible(value, limits):
            measured.values[key] = value
        else:
            measured.gaps[key] = self._registry.check(key, value) or Gap(
                GapReason.OUT_OF_RANGE, f"{value:.17g} is DCGM's word for no value"
            )

    @staticmethod
    def _is_possible(value: float, limits: _Limits) -> bool:
        low, high, counter = limits
        # A chained comparison is false for NaN.
        return (
            low <= value <= high
            and value < INT64_BLANK
            and (counter or value < FP64_BLANK)
            and value not in INT32_BLANKS
        )

    def _inherit_clocks(self, measured: Measured, parent: Reading) -> None:
        """A MIG instance has no clock of its own: all run on that of the GPU."""
        clocks = {key: parent.values[key] for key in CLOCKS if key in parent.values}
        of_parent = Measured({}, {key: parent.gaps[key] for key in CLOCKS if key in parent.gaps})
        for key, value in clocks.items():
            self._take(of_parent, key, value)
        for key in CLOCKS:
            if key in measured.values:
                continue
            if key in of_parent.values:
                measured.values[key] = of_parent.values[key]
                measured.gaps.pop(key, None)
            elif key in of_parent.gaps:
                measured.gaps[key] = of_parent.gaps[key]


BUSY = ("tensor_active", "sm_active", "gpu_util")


def _check_clock_while_busy(measured: Measured) -> None:
    """Nothing can have run at 0 Hz: then the clock is what was read wrong."""
    values: Mapping[str, float] = measured.values
    if values.get("sm_clock") == 0 and any(values.get(key, 0.0) > 0 for key in BUSY):
        del measured.values["sm_clock"]
        measured.gaps["sm_clock"] = Gap(GapReason.OUT_OF_RANGE, "0 Hz while busy")
