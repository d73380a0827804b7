"""Numbers beside a finding: what is measured of each GPU, by name.

Enters: the values of a round. Leaves: means over the GPUs of a finding.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from otel_ofu.catalog.registry import Registry
from otel_ofu.rules.algebra import Values
from otel_ofu.rules.language.language import parse_condition
from otel_ofu.rules.language.syntax import Expression

_VALUES = {
    "ofu": "avg(ofu, 5m)",
    "ofu_before": "avg(ofu, 1h offset 15m)",
    "gpu_util": "avg(gpu_util, 5m)",
    "tensor_active": "avg(tensor_active, 5m)",
    "clock_factor": "avg(clock_factor, 5m)",
    "power_w": "avg(power, 5m)",
    "mfu": "job.avg(mfu, 10m)",
    "step_s": "job.avg(step_time, 5m)",
    "ofu_baseline": "job.avg(job_ofu_baseline, 10m)",
}


def fact_expressions(registry: Registry) -> dict[str, Expression]:
    """What is evaluated of every GPU in each round; the value is the left side of each."""
    return {
        name: parse_condition(f"{text} >= 0", "gpu", registry) for name, text in _VALUES.items()
    }


def facts_of(values: Mapping[str, Values], gpus: NDArray[np.intp]) -> dict[str, float]:
    """Means over some GPUs; a name is there only when one of them has a value."""
    found: dict[str, float] = {}
    for name, column in values.items():
        known = column[gpus][~np.isnan(column[gpus])]
        if known.size:
            found[name] = float(known.mean(dtype=np.float64))
    return found


def gpu_hours_lost(facts: dict[str, float], gpus: int, lasted_s: float) -> float | None:
    """GPU time that the same work would not have needed at the OFU of before; None if not less.

    Source: the share of time lost at OFU x against y is 1 - x / y.
    """
    now, before = facts.get("ofu"), facts.get("ofu_before") or facts.get("ofu_baseline")
    if now is None or not before or now >= before or lasted_s <= 0:
        return None
    return (1 - now / before) * gpus * lasted_s / 3_600
