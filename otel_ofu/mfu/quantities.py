"""What a job can report of its speed, in one vocabulary for logs, patterns and metric names.

Leaves: the names that formats, own patterns and metric mappings use, each with the field of a
`JobReport` that it fills and the factor that brings it to that field's unit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

Field = Literal[
    "tflops_per_gpu", "mfu", "tokens_per_s", "tokens_per_s_per_gpu", "samples_per_s", "step_s"
]
Quantity = Literal[
    "mfu",
    "mfu_percent",
    "tflops_per_gpu",
    "flops_per_gpu",
    "tokens_per_s",
    "tokens_per_s_per_gpu",
    "samples_per_s",
    "step_s",
    "step_ms",
    "steps_per_s",
]


@dataclass(frozen=True, slots=True)
class Conversion:
    """`value x scale` in the unit of `field`, or `scale / value` for a rate that is a time."""

    field: Field
    scale: float = 1.0
    inverse: bool = False

    def apply(self, value: float) -> float | None:
        """The converted value; None below 0, by which frameworks say "not known"."""
        if not 0.0 <= value < float("inf"):
            return None
        if not self.inverse:
            return value * self.scale
        return self.scale / value if value else None


QUANTITIES: Mapping[Quantity, Conversion] = MappingProxyType(
    {
        "mfu": Conversion("mfu"),
        "mfu_percent": Conversion("mfu", 0.01),
        "tflops_per_gpu": Conversion("tflops_per_gpu"),
        "flops_per_gpu": Conversion("tflops_per_gpu", 1e-12),
        "tokens_per_s": Conversion("tokens_per_s"),
        "tokens_per_s_per_gpu": Conversion("tokens_per_s_per_gpu"),
        "samples_per_s": Conversion("samples_per_s"),
        "step_s": Conversion("step_s"),
        "step_ms": Conversion("step_s", 1e-3),
        "steps_per_s": Conversion("step_s", inverse=True),
    }
)
