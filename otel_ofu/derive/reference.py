"""The clock that OFU is measured against, and where it came from.

Enters: the policy, the SKU if it is known, the device's maximum clock. Leaves: a `Reference`, or a
gap that says what is missing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from otel_ofu.catalog.skus import Sku
from otel_ofu.derive.cleaning import Measured
from otel_ofu.derive.settings import ReferencePolicy
from otel_ofu.model import Gap, GapReason


@dataclass(frozen=True, slots=True)
class Reference:
    """A clock in Hz, >= 1, and its origin (registry attribute `ofu.reference_clock.source`)."""

    clock_hz: float
    source: Literal["sku_table", "device_max", "config"]


def resolve(
    policy: ReferencePolicy, sku: Sku | None, precision: str, measured: Measured
) -> Reference | Gap:
    """The reference clock; an unknown model falls back to the device's maximum, and says so."""
    if not isinstance(policy, str):
        return Reference(policy, "config")
    if policy == "sku_table" and sku is not None:
        return Reference(sku.reference_clock_hz(precision), "sku_table")
    clock_hz = measured.values.get("max_sm_clock")
    if clock_hz is not None:
        return Reference(clock_hz, "device_max")
    why = "unknown model" if policy == "sku_table" else "reference_clock is device_max"
    return Gap(GapReason.NOT_SUPPORTED, f"no reference clock: {why} and no max SM clock")
