"""MFU from first principles: a Hugging Face config.json -> model FLOPs for one token."""

from collections.abc import Mapping
from typing import Any

from otel_ofu.mfu.flops.config import (
    ModelConfigError,
    ModelKeyError,
    config_path,
    load_families,
    read_config,
)
from otel_ofu.mfu.flops.count import (
    CommonMistake,
    FlopsBreakdown,
    FlopsPart,
    Masking,
    count,
    model_flops,
    packed_length,
    usual_mistakes,
)
from otel_ofu.mfu.flops.layers import read_shape

__all__ = [
    "CommonMistake",
    "FlopsBreakdown",
    "FlopsPart",
    "Masking",
    "ModelConfigError",
    "ModelKeyError",
    "config_path",
    "known_models",
    "mistakes",
    "model_flops",
    "packed_length",
    "read_config",
]


def known_models() -> tuple[str, ...]:
    """The model types that can be counted, sorted."""
    return tuple(sorted(load_families()))


def mistakes(
    config: Mapping[str, Any], seq_len: float, *, masking: Masking = "causal"
) -> tuple[CommonMistake, ...]:
    """What the usual wrong formulas give for this model; errors as `model_flops`."""
    model_flops(config, seq_len, masking=masking)
    shape = read_shape(config)
    return usual_mistakes(shape, count(shape, seq_len, masking=masking))
