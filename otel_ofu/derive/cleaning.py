"""What a source measured, without what cannot be: each impossible value becomes a gap.

Enters: a `Reading`. Leaves: its values and gaps, disjoint; no sentinel, no NaN, nothing clamped.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from otel_ofu.catalog.registry import Metric, Registry
from otel_ofu.model import Gap, GapReason, Reading

# Blanks of DCGM: BLANK, NOT_FOUND, NOT_SUPPORTED, NOT_PERMISSIONED. As floats the four of int64 are
# one number, 2**63; no counter comes near it. A counter may pass 2**47, and a clock in Hz may pass
# 2**31, so those tests are narrower.
# Source: dcgm_structs.h, DCGM_INT32_BLANK, DCGM_INT64_BLANK, DCGM_FP64_BLANK.
INT64_BLANK = 9.2e18
FP64_BLANK = 2.0**47
INT32_BLANKS = (float(0x7FFFFFF0), float(0x7FFFFFF3))

CLOCKS = ("sm_clock", "sm_clock_mean", "sm_clock_mean_error", "max_sm_clock")


@dataclass(slots=True)
class MeasuredValues:
    """Values and gaps of one reading, disjoint by key."""

    values: dict[str, float]
    gaps: dict[str, Gap]

    def gap(self, key: str) -> Gap:
        """Why `key` has no value."""
        return self.gaps.get(key) or Gap(GapReason.NOT_SUPPORTED, f"the source gives no {key}")


class ReadingCleaner:
    """Checks against the registry, which never changes."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._derived = {key for key, metric in registry.metrics.items() if metric.derived}
        self._limits = {key: _limits(metric) for key, metric in registry.metrics.items()}

    def clean(self, reading: Reading, parent: Reading | None = None) -> MeasuredValues:
        """The reading's measured values and gaps; clocks that it lacks come from its parent."""
        gaps = {key: gap for key, gap in reading.gaps.items() if key not in self._derived}
        measured = self._checked(reading.values, gaps)
        if parent is not None:
            self._inherit_clocks(measured, parent)
        _check_clock_while_busy(measured)
        return measured

    def _checked(self, given: Mapping[str, float], gaps: dict[str, Gap]) -> MeasuredValues:
        """The possible ones of `given`. Runs for every value there is, so it calls little."""
        first, last = INT32_BLANKS
        values: dict[str, float] = {}
        for key, value in given.items():
            base = key if key in self._limits else key.partition(":")[0]
            if key in gaps or base in self._derived:
                continue
            # An unknown key has an empty range. A chained comparison is false for NaN.
            low, high = self._limits.get(base, NEVER)
            if low <= value <= high and not first <= value <= last:
                values[key] = value
            else:
                gaps[key] = self._gap(key, base, value)
        return MeasuredValues(values, gaps)

    def _gap(self, key: str, base: str, value: float) -> Gap:
        if base not in self._limits:
            return Gap(GapReason.FAILED, "no such metric in the registry")
        why = f"{value:.17g} is a blank of DCGM: no value"
        return self._registry.check(key, value) or Gap(GapReason.OUT_OF_RANGE, why)

    def _inherit_clocks(self, measured: MeasuredValues, parent: Reading) -> None:
        """A MIG instance has no clock of its own: all run on that of the GPU."""
        of_parent = self._checked(
            {key: parent.values[key] for key in CLOCKS if key in parent.values},
            {key: parent.gaps[key] for key in CLOCKS if key in parent.gaps},
        )
        for key in CLOCKS:
            if key in measured.values:
                continue
            if key in of_parent.values:
                measured.values[key] = of_parent.values[key]
                measured.gaps.pop(key, None)
            elif key in of_parent.gaps:
                measured.gaps[key] = of_parent.gaps[key]


NEVER = (math.inf, -math.inf)


def _limits(metric: Metric) -> tuple[float, float]:
    """The registry's range, cut where DCGM's blanks begin."""
    low, high = metric.range
    blank = INT64_BLANK if metric.kind == "counter" else FP64_BLANK
    most = math.nextafter(blank, 0)
    return -math.inf if low is None else low, most if high is None else min(high, most)


BUSY = ("tensor_active", "sm_active", "gpu_util")


def _check_clock_while_busy(measured: MeasuredValues) -> None:
    """Nothing can have run at 0 Hz: then the clock is what was read wrong.

    The clock at the end of a window may stand still after work at another: some boards stop it.
    """
    values: Mapping[str, float] = measured.values
    key = "sm_clock_mean" if "sm_clock_mean" in values else "sm_clock"
    if values.get(key) == 0 and any(values.get(busy, 0.0) > 0 for busy in BUSY):
        del measured.values[key]
        measured.gaps[key] = Gap(GapReason.OUT_OF_RANGE, "0 Hz while busy")
