"""The reference clock, and one window's OFU, clock factor and applicability.

Enters: the policy, the SKU if it is known, measured values, the window by its cycle counters if
there is one. Leaves: each a value, or a gap that holds what is missing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from otel_ofu.catalog.skus import Sku
from otel_ofu.derive import formulas
from otel_ofu.derive.cleaning import MeasuredValues
from otel_ofu.derive.counters import CycleShare
from otel_ofu.derive.settings import ReferencePolicy
from otel_ofu.model import Gap, GapReason


@dataclass(frozen=True, slots=True)
class ReferenceClock:
    """A clock in Hz, >= 1, and its origin (metric `ofu.gpu.clock.reference`)."""

    clock_hz: float
    source: Literal["sku_table", "device_max", "config"]


def resolve(
    policy: ReferencePolicy, sku: Sku | None, precision: str, measured: MeasuredValues
) -> ReferenceClock | Gap:
    """The reference clock; that of an unknown model is the device's maximum, as `source` shows."""
    if not isinstance(policy, str):
        return ReferenceClock(policy, "config")
    if policy == "sku_table" and sku is not None:
        return ReferenceClock(sku.reference_clock_hz(precision), "sku_table")
    clock_hz = measured.values.get("max_sm_clock")
    if clock_hz is not None:
        return ReferenceClock(clock_hz, "device_max")
    why = "unknown model" if policy == "sku_table" else "reference_clock is device_max"
    text = f"no reference clock: {why} and no max SM clock"
    gap = measured.gaps.get("max_sm_clock")
    return Gap(GapReason.NOT_SUPPORTED, f"{text}: {gap.detail}" if gap and gap.detail else text)


# Words of `Reading.quality`: what a vendor's counters give instead of tensor activity and a clock.
BUSY_PROXY = "busy_proxy"
FIXED_CLOCK = "fixed_clock"

# Our own starting values, not measured. On V100 to B200 a tensor pipe does 8 to 32 times the FLOPs
# of the FP32 pipe in one cycle (BF16 or FP16 in skus.yaml against 128 to 256), so with a sixteenth
# of its activity it may do less than half of the work. Below a tenth nothing is busy.
VECTOR_BUSY = 0.1
TENSOR_SHARE = 1 / 16
VECTOR_PIPES = ("fp64_active", "fp32_active", "fp16_active")


def tensor_activity(measured: MeasuredValues) -> float | Gap:
    """Share of all cycles with an active tensor pipe.

    A source whose counter is relative to busy cycles gives `engine_busy` as well (or its gap).
    Source: AMD device-metrics-exporter, MfmaUtil over GRBM_GUI_ACTIVE.
    """
    values = measured.values
    for key in ("tensor_active", "engine_busy"):
        if key not in values and (key in measured.gaps or key == "tensor_active"):
            return measured.gap(key)
    return values["tensor_active"] * values.get("engine_busy", 1.0)


def clock_share(
    measured: MeasuredValues, reference: ReferenceClock | Gap, cycles: CycleShare | None
) -> float | Gap:
    """Mean SM clock over reference clock: by calibrated counters, by samples, else at the end."""
    at_end_hz = measured.values.get("sm_clock")
    mean_hz = measured.values.get("sm_clock_mean", at_end_hz)
    clock_hz = mean_hz if cycles is None else cycles.clock_hz
    if clock_hz is None:
        return measured.gap("sm_clock")
    if isinstance(reference, Gap):
        return reference
    return formulas.clock_factor(clock_hz, reference.clock_hz)


def utilization(
    measured: MeasuredValues,
    quality: str,
    reference: ReferenceClock | Gap,
    cycles: CycleShare | None,
) -> float | Gap:
    """OFU of the window, or why there is none."""
    if quality == BUSY_PROXY:
        busy_only = Gap(GapReason.NOT_SUPPORTED, "exporter gives busy time only")
        return measured.gaps.get("tensor_active", busy_only)
    if cycles is not None and isinstance(reference, ReferenceClock):
        return formulas.ofu_from_cycles(
            cycles.mma_cycles, cycles.scale, reference.clock_hz, cycles.elapsed_s
        )
    activity = tensor_activity(measured)
    if isinstance(activity, Gap) or quality == FIXED_CLOCK:
        return activity
    factor = clock_share(measured, reference, None)
    return factor if isinstance(factor, Gap) else activity * factor


def applicability(measured: MeasuredValues) -> float | Gap:
    """0 when the vector pipes do the work, 1 when they are known not to.

    Source: arXiv:2605.20799 (OFU stands on tensor pipes doing nearly all FLOPs).
    """
    tensor = tensor_activity(measured)
    if isinstance(tensor, Gap):
        return tensor
    vector = max(measured.values.get(pipe, 0.0) for pipe in VECTOR_PIPES)
    if vector >= VECTOR_BUSY and tensor < TENSOR_SHARE * vector:
        return 0.0
    missing = next((pipe for pipe in VECTOR_PIPES if pipe not in measured.values), None)
    return 1.0 if missing is None else measured.gap(missing)
