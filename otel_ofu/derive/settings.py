"""What a developer passes to `Deriver`; the composition root fills it from the config."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal

from otel_ofu.catalog.skus import Skus, load_skus

ReferencePolicy = Literal["sku_table", "device_max"] | float


@dataclass(frozen=True, slots=True)
class Settings:
    """`reference_clock`: a policy, or a fixed clock in Hz (finite, >= 1; else ValueError).

    `precision`: the domain that holds where a job declares none; empty = detect it.
    `host_name` stands in where a device does not know its host.
    """

    skus: Skus = field(default_factory=load_skus)
    reference_clock: ReferencePolicy = "sku_table"
    precision: str = ""
    host_name: str = ""
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
