"""families.yaml as types: what a model type does that its config does not have."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any, Literal

import msgspec

from otel_ofu.files.yaml import convert, parse_yaml
from otel_ofu.mfu.flops.config import ModelKeyError

Build = Literal["uniform", "nemotron_h", "jamba", "granite", "bamba", "mamba", "mamba2"]


class Family(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One model type; the header of families.yaml explains the fields."""

    build: Build = "uniform"
    latent: bool = False
    experts: bool = False
    gated: bool = True
    norm: Literal["rms", "layer", "none"] = "rms"
    norms: int = 2
    qk_norm: Literal["none", "head", "all"] = "none"
    bias: Literal["none", "qkv", "all", "attention_bias"] = "none"
    mlp_bias: Literal["none", "all", "mlp_bias"] = "none"
    head_bias: bool = False
    expert_bias: bool = False
    score_bias: bool = False
    shared_gate: bool = False
    sinks: bool = False
    window: Literal["none", "all", "even", "every", "switch"] = "none"
    defaults: dict[str, Any] = {}
    aliases: dict[str, str] = {}


class _FamiliesFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    families: dict[str, Family]


@cache
def load_families() -> Mapping[str, Family]:
    """The model types of this package by their name; parsed once."""
    text = files("otel_ofu.mfu.flops").joinpath("families.yaml").read_bytes()
    return convert(parse_yaml(text, "families.yaml"), _FamiliesFile).families


def text_model(config: Mapping[str, Any]) -> tuple[str, Mapping[str, Any], tuple[str, ...]]:
    """The model type, the config of the language model, and remarks.

    Models with other inputs besides text hold the language model in `text_config`: only that is
    counted. Raises ModelConfigError with the known types for an unknown one.
    """
    known = load_families()
    inner = config.get("text_config")
    outer = str(config.get("model_type", ""))
    if isinstance(inner, Mapping) and outer not in known:
        name = str(inner.get("model_type", ""))
        merged = {"tie_word_embeddings": config.get("tie_word_embeddings"), **inner}
        if name in known:
            return name, merged, (f"only the language model of {outer!r} is counted",)
        outer = name or outer
    if outer not in known:
        why = f"model_type {outer!r} is not known" if outer else "'model_type' is missing"
        raise ModelKeyError(f"{why}; known: {', '.join(sorted(known))}")
    return outer, config, ()
