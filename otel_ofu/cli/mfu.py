"""`otel-ofu mfu`: model FLOPs per token from first principles, and how usual formulas go wrong.

Enters: a Hugging Face config.json, or the sizes of one matrix product (`--gemm MxNxK`): what it
needs, what its kernel does, what OFU shows. Leaves: text or JSON.
"""

from __future__ import annotations

import argparse
import json
import math
import re
from collections.abc import Iterator, Sequence
from typing import Any

from otel_ofu.catalog.skus import PRECISIONS, Sku, load_skus
from otel_ofu.cli import options
from otel_ofu.derive.gemm import DEFAULT_TILE, MOST, TILE_K, GemmBreakdown
from otel_ofu.mfu.flops import (
    CommonMistake,
    FlopsBreakdown,
    Masking,
    ModelConfigError,
    ModelKeyError,
    config_path,
    known_models,
    mistakes,
    model_flops,
    read_config,
)
from otel_ofu.mfu.report import TERA
from otel_ofu.mfu.summary import JobRun, peak_flops, summary_data, summary_lines
from otel_ofu.model.errors import ConfigError, Problem
from otel_ofu.report.reasons import LEAST_S, MfuAssessment, judge

MOST_OFU = 1.5
"""Starting value: above the highest clock over any reference clock; 41 is a percentage."""
SEQ_LEN = 4096
MASKING: Masking = "causal"


class _Gpu(argparse.Action):
    """Two words for one option: mistakes name the one that was written."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,  # noqa: ARG002 - argparse passes it
        namespace: argparse.Namespace,
        values: str | Sequence[object] | None,
        option_string: str | None = None,
    ) -> None:
        namespace.gpu, namespace.gpu_option = values, option_string


def add(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Computes model FLOPs per token from first principles, and shows how far the "
        "usual formulas are off for this model. Known: " + ", ".join(known_models()) + "."
    )
    parser.add_argument("config", metavar="CONFIG.json", nargs="?", help="config.json of the model")
    parser.add_argument(
        "--seq-len", type=int, metavar="N", help=f"sequence length (default {SEQ_LEN})"
    )
    parser.add_argument(
        "--masking",
        choices=("causal", "full"),
        help="attention counted as done (causal, the default), or as if nothing were masked (full)",
    )
    parser.add_argument(
        "--tokens-per-s-per-gpu", type=float, metavar="N", help="to compute the MFU of a run"
    )
    parser.add_argument(
        "--ofu", metavar="PART", help="measured OFU of the run, as in 41%% or 0.41, to compare with"
    )
    parser.add_argument(
        "--gpu",
        "--sku",
        action=_Gpu,
        metavar="MODEL",
        help="name or SKU, e.g. 'NVIDIA H100 80GB HBM3'",
    )
    parser.add_argument(
        "--precision", choices=PRECISIONS, default="bf16", help="of the peak (default bf16)"
    )
    parser.add_argument("--json", action="store_true", help="for programs")
    _add_gemm(parser)
    parser.set_defaults(verb=run)


def run(arguments: argparse.Namespace) -> int:
    _check_together(arguments)
    if arguments.gemm is not None:
        return _of_gemm(arguments)
    measured, ofu = _measured(arguments), _ofu(arguments)
    flops, wrong = _counted(arguments)
    verdict = None if measured is None or ofu is None else judge(measured.mfu(flops), ofu, LEAST_S)
    if arguments.json:
        data = summary_data(flops, wrong, measured)
        if measured is not None and verdict is not None and ofu is not None:
            data["run"] |= _residual_data(measured.mfu(flops), ofu, verdict)
        print(json.dumps(data, indent=2))
        return 0
    for line in summary_lines(flops, wrong, measured):
        print(line)
    if measured is not None and verdict is not None and ofu is not None:
        print(*_residual(measured.mfu(flops), ofu, verdict), sep="\n")
    return 0


# Arguments that go with others only, or not with others.
_OF_GEMM = ("tile", "time")
_OF_MODEL = ("config", "seq_len", "masking", "tokens_per_s_per_gpu", "ofu")


def _check_together(arguments: argparse.Namespace) -> None:
    gemm = arguments.gemm is not None
    given = [
        name for name in (_OF_MODEL if gemm else _OF_GEMM) if getattr(arguments, name) is not None
    ]
    if given and gemm:
        shown = "CONFIG.json" if given[0] == "config" else _option(given[0])
        raise options.misused(f"{shown} and --gemm are for two questions; leave one out")
    if given:
        raise options.misused(f"{_option(given[0])} belongs to --gemm; add --gemm MxNxK")
    if not gemm and arguments.config is None:
        raise options.misused("no model is given; add CONFIG.json, or --gemm MxNxK for one product")


def _option(name: str) -> str:
    return "--" + name.replace("_", "-")


def _of_gemm(arguments: argparse.Namespace) -> int:
    try:
        return _run_gemm(arguments, _sku(arguments) if arguments.gpu else None)
    except ValueError as error:
        raise options.misused(str(error)) from error


def _residual(mfu: float, ofu: float, verdict: MfuAssessment) -> Iterator[str]:
    """What the ratio of MFU and OFU tells."""
    yield ""
    yield f"MFU {mfu:.1%} / OFU {ofu:.1%} = {mfu / ofu:.3f}"
    yield from (f"  {reason}" for reason in verdict.reasons)
    if not verdict.reasons:
        yield "  as it should be" if verdict.kind == "normal" else "  no known mistake"


def _residual_data(mfu: float, ofu: float, verdict: MfuAssessment) -> dict[str, Any]:
    return {
        "ofu": ofu,
        "mfu_over_ofu": mfu / ofu,
        "verdict": verdict.kind,
        "reasons": list(verdict.reasons),
    }


def _ofu(arguments: argparse.Namespace) -> float | None:
    text = arguments.ofu
    if text is None:
        return None
    if arguments.tokens_per_s_per_gpu is None:
        raise options.misused("--ofu is compared with a run; add --tokens-per-s-per-gpu and --gpu")
    try:
        ofu = float(text.removesuffix("%")) / (100.0 if text.endswith("%") else 1.0)
    except ValueError:
        ofu = math.nan
    if not 0 < ofu <= MOST_OFU:
        raise options.misused(f"--ofu {text!r} is not an OFU; allowed: above 0, as in 41% or 0.41")
    return ofu


def _counted(arguments: argparse.Namespace) -> tuple[FlopsBreakdown, Sequence[CommonMistake]]:
    file = str(config_path(arguments.config))
    masking: Masking = arguments.masking or MASKING
    seq_len = SEQ_LEN if arguments.seq_len is None else arguments.seq_len
    try:
        config = read_config(file)
        flops = model_flops(config, seq_len, masking=masking)
        return flops, mistakes(config, seq_len, masking=masking)
    except ModelConfigError as error:
        message = str(error.in_file(file) if isinstance(error, ModelKeyError) else error)
        raise ConfigError([Problem(file, 0, 0, message.removeprefix(f"{file}: "))]) from error


def _measured(arguments: argparse.Namespace) -> JobRun | None:
    tokens = arguments.tokens_per_s_per_gpu
    if tokens is None and arguments.gpu is None:
        return None
    if tokens is None or arguments.gpu is None:
        raise options.misused("--tokens-per-s-per-gpu and --gpu belong together")
    try:
        return JobRun(tokens, _sku(arguments), arguments.precision)
    except ValueError as error:
        raise options.misused(str(error)) from error


def _sku(arguments: argparse.Namespace) -> Sku:
    skus, name = load_skus(), arguments.gpu
    found = skus.by_id.get(name) or skus.match(name)
    if found is None:
        raise options.misused(
            f"{arguments.gpu_option} {name!r} is not known; known: {', '.join(skus.by_id)}"
        )
    return found


_SIZES = re.compile(r"[0-9]{1,8}(?:[xX][0-9]{1,8}){1,2}")
_TIME = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)(us|µs|ms|s)")
_UNITS_S = {"us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0}


def _add_gemm(parser: argparse.ArgumentParser) -> None:
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


def _run_gemm(arguments: argparse.Namespace, sku: Sku | None) -> int:
    """Raises ValueError with what is wrong and what is allowed."""
    gemm = _gemm(arguments)
    time_s = None if arguments.time is None else _time_s(arguments.time)
    if time_s is not None and sku is None:
        raise ValueError("--time needs --sku: OFU is over the peak of a GPU; add --sku h100-sxm5")
    peak = None if sku is None else peak_flops(sku, arguments.precision)
    if arguments.json:
        print(json.dumps(_gemm_data(gemm, arguments.precision, sku, peak, time_s), indent=2))
        return 0
    for line in _gemm_lines(gemm, arguments.precision):
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


def _gemm_lines(gemm: GemmBreakdown, precision: str) -> Iterator[str]:
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


def _gemm_data(
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
