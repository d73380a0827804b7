"""`otel-ofu mfu`: model FLOPs per token from first principles, and how usual formulas go wrong.

Enters: a Hugging Face config.json. Leaves: text or JSON.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence

from otel_ofu.catalog.skus import PRECISIONS, Sku, load_skus
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


def add(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Computes model FLOPs per token from first principles, and shows how far the "
        "usual formulas are off for this model. Known: " + ", ".join(known_models()) + "."
    )
    parser.add_argument("config", metavar="CONFIG.json", help="config.json of the model")
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
    parser.add_argument("--gpu", metavar="MODEL", help="name or SKU, e.g. 'NVIDIA H100 80GB HBM3'")
    parser.add_argument(
        "--precision", choices=PRECISIONS, default="bf16", help="of the peak (default bf16)"
    )
    parser.add_argument("--json", action="store_true", help="for programs")
    parser.set_defaults(verb=run)


def run(arguments: argparse.Namespace) -> int:
    measured = _measured(arguments)
    flops, wrong = _counted(arguments)
    if arguments.json:
        print(json.dumps(summary_data(flops, wrong, measured), indent=2))
        return 0
    for line in summary_lines(flops, wrong, measured):
        print(line)
    return 0


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
