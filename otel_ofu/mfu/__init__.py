"""What jobs say of their own speed, and what it should be.

`names`: metrics that jobs send. `logs`: lines that they print. `flops`: what a token costs by the
model's own config. `peaks`: from FLOP/s to MFU. All reports speak of jobs, not of single GPUs.
"""

from otel_ofu.mfu.names import JobSeries, SeriesNames, built_in_names, recognise
from otel_ofu.mfu.peaks import mfu, mfu_from_tflops, reported_peak, same_peak
from otel_ofu.mfu.quantities import QUANTITIES, Quantity
from otel_ofu.mfu.report import JobReport

__all__ = [
    "QUANTITIES",
    "JobReport",
    "JobSeries",
    "Quantity",
    "SeriesNames",
    "built_in_names",
    "mfu",
    "mfu_from_tflops",
    "recognise",
    "reported_peak",
    "same_peak",
]
