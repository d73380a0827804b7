"""What a job reported of its own speed, and from FLOP/s and peaks to MFU.

MFU = model FLOPs in a second / dense peak of the device in the precision of the matrices. The
peak that a framework divided by is a figure of its own: it is often another one than ours.
Source: PaLM, arXiv:2204.02311, appendix B.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from otel_ofu.catalog.skus import Sku

TERA = 1e12

# A framework prints MFU and TFLOP/s with two to four digits; nearer than this is the same peak.
PEAK_TOLERANCE = 0.02


def mfu(tokens_per_s_per_gpu: float, flops_per_token: float, peak_flops: float) -> float:
    """Tokens/s of one GPU x FLOPs for one token / peak FLOP/s; a ratio, and above 1 when so.

    Raises ValueError for negative or non-finite input and for a peak that is not above 0.
    """
    for name, value in (("tokens/s", tokens_per_s_per_gpu), ("FLOPs per token", flops_per_token)):
        if not math.isfinite(value) or value < 0:
            raise ValueError(f"{name}: {value!r}; allowed: 0 or more")
    if not math.isfinite(peak_flops) or peak_flops <= 0:
        raise ValueError(f"peak: {peak_flops!r} FLOP/s; allowed: above 0")
    return tokens_per_s_per_gpu * flops_per_token / peak_flops


def mfu_from_tflops(tflops_per_gpu: float, sku: Sku, precision: str) -> float | None:
    """TFLOP/s of one GPU over our dense peak; None when the SKU has none in that precision."""
    peak = sku.peak_flops(precision)
    return None if peak is None else tflops_per_gpu * TERA / peak


def reported_peak(tflops_per_gpu: float | None, mfu_ratio: float | None) -> float | None:
    """The peak in FLOP/s that a framework divided by, when it gives both figures; else None."""
    if tflops_per_gpu is None or mfu_ratio is None or tflops_per_gpu <= 0 or mfu_ratio <= 0:
        return None
    return tflops_per_gpu * TERA / mfu_ratio


def same_peak(reported_flops: float, ours_flops: float) -> bool:
    """Whether two peaks in FLOP/s agree within what printed figures can show."""
    return abs(reported_flops / ours_flops - 1.0) <= PEAK_TOLERANCE


@dataclass(frozen=True, slots=True)
class JobReport:
    """One line of a log. None where the line has none; at least one figure is there.

    `time_s` is when the line was read (Unix seconds). `tokens_per_s` and `samples_per_s` are the
    whole job's, the `_per_gpu` figures are one GPU's. `mfu` is the framework's own, over the peak
    that it chose; `step_s` is seconds for a training step. `job` is what the path template of the
    configuration gives as the job of this log, or empty.
    """

    time_s: float
    source: str
    framework: str
    line_number: int
    tflops_per_gpu: float | None = None
    mfu: float | None = None
    tokens_per_s: float | None = None
    tokens_per_s_per_gpu: float | None = None
    samples_per_s: float | None = None
    step_s: float | None = None
    job: str = ""

    @property
    def reported_peak(self) -> float | None:
        """The peak in FLOP/s that the framework divided by, where both figures are given."""
        return reported_peak(self.tflops_per_gpu, self.mfu)
