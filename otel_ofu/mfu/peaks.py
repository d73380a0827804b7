"""FLOP/s and peaks <-> MFU.

MFU = model FLOPs in a second / dense peak of the device in the precision of the matrices. The
peak that a framework divided by is a figure of its own: it is often another one than ours.
Source: PaLM, arXiv:2204.02311, appendix B.
"""

from __future__ import annotations

import math

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
    """Whether two peaks in FLOP/s agree within what printed figures can tell."""
    return abs(reported_flops / ours_flops - 1.0) <= PEAK_TOLERANCE
