"""The speed that jobs report, and what it should be.

`names`: metrics that jobs send. `logs`: lines that they print. `flops`: what a token costs by the
model's own config. `report`: from FLOP/s to MFU. All reports are of jobs, not of single GPUs.
"""

from otel_ofu.mfu.names import (
    QUANTITIES,
    Quantity,
    SeriesNames,
    built_in_names,
)
from otel_ofu.mfu.report import JobReport, mfu

__all__ = [
    "QUANTITIES",
    "JobReport",
    "Quantity",
    "SeriesNames",
    "built_in_names",
    "mfu",
]
