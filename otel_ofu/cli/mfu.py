"""`otel-ofu mfu`: model FLOPs per token from first principles, and how usual formulas go wrong.

Enters: a Hugging Face config.json, or the sizes of one matrix product. Leaves: text or JSON.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterator, Sequence
from typing import Any

from otel_ofu.catalog.skus import PRECISIONS, Sku, load_skus
from otel_ofu.cli import mfu_gemm
from otel_ofu.mfu.flops import (
    CommonMistake,
    FlopsBreakdown,
    ModelConfigError,
    ModelKeyError,
    config_path,
    known_models,
    mistakes,
    model_flops,
    read_config,
)
from otel_ofu.mfu.summary import JobRun, summary_data, summary_lines
from otel_ofu.model.errors import ConfigError, Problem
from otel_ofu.report.reasons import LEAST_S, MfuAssessment, judge

MOST_OFU = 1.5
"""Starting value: above the highest clock over any reference clock; 41 is a percentage."""


def add(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Computes model FLOPs per token from first principles, and shows how far the "
        "usual formulas are off for this model. Known: " + ", ".join(known_models()) + "."
    )
    parser.add_argument("config", metavar="CONFIG.json", nargs="?", help="config.json of the model")
    parser.add_argument(
        "--seq-len", type=int, default=4096, metavar="N", help="sequence length (default 4096)"
    )
    parser.add_argument(
        "--masking",
        choices=("causal", "full"),
        default="causal",
        help="attention counted as done (causal), or as if nothing were masked (full)",
    )
    parser.add_argument(
        "--tokens-per-s-per-gpu", type=float, metavar="N", help="to compute the MFU of a run"
    )
    parser.add_argument(
        "--ofu", metavar="PART", help="measured OFU of the run, as in 41%% or 0.41, to compare with"
    )
    parser.add_argument(
        "--gpu", "--sku", metavar="MODEL", help="name or SKU, e.g. 'NVIDIA H100 80GB HBM3'"
    )
    parser.add_argument(
        "--precision", choices=PRECISIONS, default="bf16", help="of the peak (default bf16)"
    )
    parser.add_argument("--json", action="store_true", help="for programs")
    mfu_gemm.add(parser)
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
_OF_MODEL = ("config", "tokens_per_s_per_gpu", "ofu")


def _check_together(arguments: argparse.Namespace) -> None:
    gemm = arguments.gemm is not None
    given = [
        name for name in (_OF_MODEL if gemm else _OF_GEMM) if getattr(arguments, name) is not None
    ]
    if given and gemm:
        shown = "CONFIG.json" if given[0] == "config" else _option(given[0])
        raise _mistake(f"{shown} and --gemm are for two questions; leave one out")
    if given:
        raise _mistake(f"{_option(given[0])} belongs to --gemm; add --gemm MxNxK")
    if not gemm and arguments.config is None:
        raise _mistake("no model is given; add CONFIG.json, or --gemm MxNxK for one product")


def _option(name: str) -> str:
    return "--" + name.replace("_", "-")


def _of_gemm(arguments: argparse.Namespace) -> int:
    try:
        return mfu_gemm.run(arguments, _sku(arguments.gpu) if arguments.gpu else None)
    except ValueError as error:
        raise _mistake(str(error)) from error


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
        raise _mistake("--ofu is compared with a run; add --tokens-per-s-per-gpu and --gpu")
    try:
        ofu = float(text.removesuffix("%")) / (100.0 if text.endswith("%") else 1.0)
    except ValueError:
        ofu = math.nan
    if not 0 < ofu <= MOST_OFU:
        raise _mistake(f"--ofu {text!r} is not an OFU; allowed: above 0, as in 41% or 0.41")
    return ofu


def _counted(arguments: argparse.Namespace) -> tuple[FlopsBreakdown, Sequence[CommonMistake]]:
    file, seq_len = str(config_path(arguments.config)), arguments.seq_len
    try:
        config = read_config(file)
        flops = model_flops(config, seq_len, masking=arguments.masking)
        return flops, mistakes(config, seq_len, masking=arguments.masking)
    except ModelConfigError as error:
        message = str(error.in_file(file) if isinstance(error, ModelKeyError) else error)
        raise ConfigError([Problem(file, 0, 0, message.removeprefix(f"{file}: "))]) from error


def _measured(arguments: argparse.Namespace) -> JobRun | None:
    tokens = arguments.tokens_per_s_per_gpu
    if tokens is None and arguments.gpu is None:
        return None
    if tokens is None or arguments.gpu is None:
        raise _mistake("--tokens-per-s-per-gpu and --gpu belong together")
    try:
        return JobRun(tokens, _sku(arguments.gpu), arguments.precision)
    except ValueError as error:
        raise _mistake(str(error)) from error


def _sku(name: str) -> Sku:
    skus = load_skus()
    found = skus.by_id.get(name) or skus.match(name)
    if found is None:
        raise _mistake(f"--gpu {name!r} is not known; known: {', '.join(skus.by_id)}")
    return found


def _mistake(text: str) -> ConfigError:
    return ConfigError([Problem("command line", 0, 0, text)])
