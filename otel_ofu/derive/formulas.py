"""The formulas. Numbers in, numbers out; nothing is clamped and nothing is remembered."""

from __future__ import annotations

import math


def ofu(tensor_active: float, sm_clock_hz: float, reference_clock_hz: float) -> float:
    """Overall FLOP Utilization, >= 0; above 1 when the SM clock exceeds the reference clock.

    `tensor_active` is the share of cycles with an active tensor pipe, in [0, 1].
    Source: Pedersen et al., arXiv:2605.20799 (OFU = TPA x f_SM / f_max).
    """
    return tensor_active * clock_factor(sm_clock_hz, reference_clock_hz)


def clock_factor(sm_clock_hz: float, reference_clock_hz: float) -> float:
    """SM clock over reference clock, >= 0. Source: Pedersen et al., arXiv:2605.20799."""
    return sm_clock_hz / reference_clock_hz


def ofu_from_cycles(
    mma_cycles: float, scale: float, reference_clock_hz: float, elapsed_s: float
) -> float:
    """OFU over `elapsed_s` from the difference of a cumulative count of active tensor cycles.

    `scale` is how many cycles the driver counts in one SM clock (see `counters.py`). Needs no
    sample of the clock: OFU = (d_mma / d_elapsed) x (d_elapsed / (scale x dt)) / f_ref.
    Source: DCGM 4.6 fields 1084 and 1086; NVML GPM metrics 248 and 250; arXiv:2605.20799.
    """
    return mma_cycles / (scale * reference_clock_hz * elapsed_s)


def mean_clock_hz(elapsed_cycles: float, scale: float, elapsed_s: float) -> float:
    """The true mean SM clock in Hz over `elapsed_s`. Source: as `ofu_from_cycles`."""
    return elapsed_cycles / (scale * elapsed_s)


def flop_limit(flops_per_clock: float, sm_share: float, clock_hz: float) -> float:
    """Dense tensor FLOP/s that `sm_share` (0..1] of a device could reach at `clock_hz`.

    Source: NVIDIA H100 Tensor Core GPU Architecture, table 3 (SMs x FLOPs/clk/SM x clock).
    """
    return flops_per_clock * sm_share * clock_hz


def flop_rate(ofu_value: float, flop_limit_value: float) -> float:
    """Dense tensor FLOP/s achieved, with the limit at the clock that the OFU is relative to.

    Source: arXiv:2605.20799 (achieved / peak = OFU when every active cycle runs at full rate).
    """
    return ofu_value * flop_limit_value


Shape = tuple[int, int, int]


def tile_quantization(shape: Shape, tile: Shape) -> float:
    """FLOPs that a GEMM kernel executes over 2MNK, >= 1: it pads M, N and K to whole tiles.

    `shape` is (M, N, K), `tile` the kernel's tile of it; all > 0, else ValueError. OFU divided by
    this is what the application's own FLOPs amount to. Never applied on its own: the shapes that
    run in production are not known.
    Source: NVIDIA Matrix Multiplication Background User's Guide, "Tile Quantization";
    Pedersen et al., arXiv:2605.20799.
    """
    if min(*shape, *tile) <= 0:
        raise ValueError(f"shape {shape} and tile {tile}: all sizes must be above 0")
    padded = (-(-size // step) * step for size, step in zip(shape, tile, strict=True))
    return math.prod(padded) / math.prod(shape)
