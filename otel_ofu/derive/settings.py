"""What a developer passes to `Deriver`; the composition root fills it from the config."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal

from otel_ofu.catalog.skus import Skus, load_skus
from otel_ofu.files.settings import parse_clock

LOWEST_CLOCK_HZ, HIGHEST_CLOCK_HZ = 1e8, 1e10
"""Starting value: wide around what GPUs run at, so that a slip in the unit is seen."""

ReferencePolicy = Literal["sku_table", "device_max"] | float


@dataclass(frozen=True, slots=True)
class DeriverSettings:
    """`reference_clock`: a policy, or a fixed clock in Hz (finite, >= 1; else ValueError).

    `precision`: the domain that holds where a job declares none; empty = detect it.
    `host_name` is the host of a device that does not name another; `node_name`, where it is set, of
    all devices.
    """

    skus: Skus = field(default_factory=load_skus)
    reference_clock: ReferencePolicy = "sku_table"
    precision: str = ""
    host_name: str = ""
    node_name: str = ""
    serial_numbers: bool = False

    def __post_init__(self) -> None:
        clock = self.reference_clock
        if isinstance(clock, str):
            valid = clock in ("sku_table", "device_max")
        else:
            valid = math.isfinite(clock) and clock >= 1
        if not valid:
            raise ValueError(
                f"reference_clock {clock!r}; allowed: sku_table, device_max or a clock >= 1 Hz"
            )


def parse_reference_clock(text: str) -> ReferencePolicy:
    """`sku_table`, `device_max`, or a clock such as `1830MHz` in Hz; else ValueError."""
    if text == "sku_table":
        return "sku_table"
    if text == "device_max":
        return "device_max"
    clock_hz = parse_clock(text)
    if not LOWEST_CLOCK_HZ <= clock_hz <= HIGHEST_CLOCK_HZ:
        raise ValueError(f"{text} is not a clock of a GPU; allowed: 100MHz to 10GHz")
    return clock_hz
