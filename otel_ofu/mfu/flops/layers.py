"""A model's config -> its blocks, layer by layer.

Enters: the keys of a config and its family. Leaves: a `ModelShape`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from otel_ofu.mfu.flops import hybrids
from otel_ofu.mfu.flops.blocks import Norm
from otel_ofu.mfu.flops.families import Build, Family, load_families, text_model
from otel_ofu.mfu.flops.keys import Keys
from otel_ofu.mfu.flops.parts import Parts
from otel_ofu.mfu.flops.shape import Layer, ModelShape


def read_shape(config: Mapping[str, Any]) -> ModelShape:
    """The blocks of a model from its Hugging Face config.json.

    Raises ModelConfigError for an unknown model type, a missing key, or an impossible value.
    """
    model_type, inner, notes = text_model(config)
    family = load_families()[model_type]
    keys = Keys(inner, family.aliases, family.defaults)
    parts = Parts(keys, family)
    layers = _BUILDERS[family.build](parts, keys)
    return ModelShape(
        model_type=model_type,
        hidden=parts.hidden,
        vocab=keys.count("vocab_size"),
        tied=keys.flag("tie_word_embeddings"),
        layers=layers,
        vectors=parts.norm_width + (keys.count("vocab_size") if family.head_bias else 0),
        positions=keys.count("learned_positions", 0, least=0),
        prediction_layer=_prediction_layer(family, parts, keys, layers),
        notes=notes,
    )


def _uniform(parts: Parts, _: Keys) -> tuple[Layer, ...]:
    return tuple(
        (parts.attention(i), parts.feed_forward(i), parts.norms) for i in range(parts.depth)
    )


_BUILDERS: Mapping[Build, Callable[[Parts, Keys], tuple[Layer, ...]]] = {
    "uniform": _uniform,
    "nemotron_h": hybrids.nemotron_h,
    "jamba": hybrids.jamba,
    "granite": hybrids.granite,
    "bamba": hybrids.bamba,
    "mamba": hybrids.only_mamba,
    "mamba2": hybrids.only_mamba2,
}


def _prediction_layer(family: Family, parts: Parts, keys: Keys, layers: tuple[Layer, ...]) -> Layer:
    """What a multi-token-prediction step repeats: the last layer, or what the pattern says."""
    if not keys.count("num_nextn_predict_layers", 0, least=0) or not layers:
        return ()
    if family.build == "nemotron_h" and keys.has("mtp_hybrid_override_pattern"):
        kinds = hybrids.kinds_of(keys.value("mtp_hybrid_override_pattern"))
        return tuple(b for kind in kinds for b in hybrids.one_block(kind, parts, keys))
    return (*layers[-1], Norm(2 * parts.norm_width))
