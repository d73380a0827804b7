"""`otel-ofu mfu --gemm MxNxK`: what a matrix product needs, what its kernel does, what OFU shows.

Enters: sizes, a tile, a SKU and a time as written. Leaves: text or JSON.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterator
from typing import Any

from otel_ofu.catalog.skus import Sku
from otel_ofu.derive.gemm import DEFAULT_TILE, MOST, TILE_K, GemmBreakdown
from otel_ofu.mfu.report import TERA
from otel_ofu.mfu.summary import peak_flops

_SIZES = re.compile(r"[0-9]{1,8}(?:[xX][0-9]{1,8}){1,2}")
_TIME = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)(us|µs|ms|s)")
_UNITS_S = {"us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0}


def add(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("one matrix product instead of a model")
    group.add_argument(
        "--gemm", metavar="MxNxK", help="sizes: FLOPs required and executed, and the OFU to expect"
    )
    group.add_argument(
        "--tile",
        metavar="MxN",
        help="tile of the kernel, MxN or MxNxK (default 128x256, K by precision)",
    )
    group.add_argument("--time", metavar="TIME", help="of one product, as in 1.3ms; needs --sku")


def run(arguments: argparse.Namespace, sku: Sku | None) -> int:
    """Raises ValueError with what is wrong and what is allowed."""
    gemm = _gemm(arguments)
    time_s = None if arguments.time is None else _time_s(arguments.time)
    if time_s is not None and sku is None:
        raise ValueError("--time needs --sku: OFU is over the peak of a GPU; add --sku h100-sxm5")
    peak = None if sku is None else peak_flops(sku, arguments.precision)
    if arguments.json:
        print(json.dumps(_data(gemm, arguments.precision, sku, peak, time_s), indent=2))
        return 0
    for line in _lines(gemm, arguments.precision):
        print(line)
    if sku is not None and peak is not None:
        for line in _expected(gemm, sku, peak, time_s):
            print(line)
    return 0


def _gemm(arguments: argparse.Namespace) -> GemmBreakdown:
    m, n, k = _sizes("--gemm", arguments.gemm, "MxNxK, as in 4096x4096x4096", (3,))
    tile_m, tile_n, tile_k = *DEFAULT_TILE, TILE_K[arguments.precision]
    if arguments.tile is not None:
        tile_m, tile_n, *depth = _sizes("--tile", arguments.tile, "MxN, as in 128x256", (2, 3))
        tile_k = depth[0] if depth else tile_k
    return GemmBreakdown((m, n, k), (tile_m, tile_n, tile_k))


def _sizes(name: str, text: str, allowed: str, counts: tuple[int, ...]) -> tuple[int, ...]:
    found = tuple(map(int, re.split("[xX]", text))) if _SIZES.fullmatch(text) else ()
    if len(found) not in counts or not all(1 <= size <= MOST for size in found):
        raise ValueError(f"{name} {text!r} is not {allowed}, each from 1 to {MOST}")
    return found


def _time_s(text: str) -> float:
    found = _TIME.fullmatch(text)
    seconds = float(found[1]) * _UNITS_S[found[2]] if found else 0.0
    if seconds <= 0:
        raise ValueError(f"--time {text!r} is not a time above 0 with a unit, as in 850us or 1.3ms")
    return seconds


def _lines(gemm: GemmBreakdown, precision: str) -> Iterator[str]:
    shape, tile = (" x ".join(f"{n:,}" for n in sizes) for sizes in (gemm.shape, gemm.tile))
    yield f"M x N x K = {shape}, {precision}, tiles of {tile}"
    yield f"required FLOPs {gemm.required_flops:>26,.0f}"
    yield f"executed FLOPs {gemm.executed_flops:>26,.0f}"
    yield f"correction     {gemm.quantization:>26,.3f}  OFU / this is what the product needs"


def _expected(gemm: GemmBreakdown, sku: Sku, peak: float, time_s: float | None) -> Iterator[str]:
    yield ""
    least_s = gemm.executed_flops / peak
    if time_s is None:
        yield f"{sku.title}, {peak / TERA:,.1f} TFLOP/s: {_shown(least_s)} at an OFU of 100 %"
        return
    ofu = gemm.ofu(peak, time_s)
    yield f"{_shown(time_s)} on {sku.title}, {peak / TERA:,.1f} TFLOP/s"
    yield f"  expected OFU {ofu:.1%}, of which the product needs {ofu / gemm.quantization:.1%}"
    if ofu > 1:
        yield f"  above the peak: check --time and --precision; {_shown(least_s)} is the least"


def _shown(seconds: float) -> str:
    unit = next((u for u in ("s", "ms") if seconds >= _UNITS_S[u]), "us")
    return f"{seconds / _UNITS_S[unit]:,.3f} {unit}"


def _data(
    gemm: GemmBreakdown, precision: str, sku: Sku | None, peak: float | None, time_s: float | None
) -> dict[str, Any]:
    data: dict[str, Any] = {
        "shape": list(gemm.shape),
        "tile": list(gemm.tile),
        "precision": precision,
        "required_flops": gemm.required_flops,
        "executed_flops": gemm.executed_flops,
        "tile_quantization": gemm.quantization,
    }
    if sku is not None and peak is not None:
        data |= {"sku": sku.id, "peak_tflops": peak / TERA, "least_s": gemm.executed_flops / peak}
        if time_s is not None:
            ofu = gemm.ofu(peak, time_s)
            data |= {"time_s": time_s, "ofu": ofu, "required_ofu": ofu / gemm.quantization}
    return data
