"""A model's config -> its blocks, layer by layer.

Enters: the keys of a config and its family. Leaves: a `ModelShape`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from otel_ofu.mfu.flops.blocks import Mamba, Mamba2, Norm
from otel_ofu.mfu.flops.errors import ModelConfigError
from otel_ofu.mfu.flops.families import Build, Family, load_families, text_model
from otel_ofu.mfu.flops.keys import Keys
from otel_ofu.mfu.flops.parts import Parts
from otel_ofu.mfu.flops.shape import Layer, ModelShape

MAX_LAYERS = 10_000


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


def _depth(keys: Keys) -> int:
    depth = keys.count("num_hidden_layers")
    if depth > MAX_LAYERS:
        raise ModelConfigError(
            f"config.json: num_hidden_layers is {depth}; allowed: 1 to {MAX_LAYERS}"
        )
    return depth


def _uniform(parts: Parts, keys: Keys) -> tuple[Layer, ...]:
    return tuple(
        (parts.attention(i), parts.feed_forward(i), parts.norms) for i in range(_depth(keys))
    )


def _nemotron_h(parts: Parts, keys: Keys) -> tuple[Layer, ...]:
    return tuple(_one_block(kind, parts, keys) for kind in _kinds(keys))


# One letter for a layer in `hybrid_override_pattern`, one word in `layers_block_type`.
_LETTERS = {"M": "mamba", "*": "attention", "-": "mlp", "E": "moe"}


def _kinds(keys: Keys) -> list[str]:
    if keys.has("layers_block_type"):
        return [str(kind) for kind in keys.items("layers_block_type")]
    pattern = keys.value("hybrid_override_pattern")
    if not isinstance(pattern, str) or not pattern or len(pattern) > MAX_LAYERS:
        raise ModelConfigError(
            "config.json: 'hybrid_override_pattern' is missing; allowed: one of M * - E a layer"
        )
    return [_LETTERS.get(letter, letter) for letter in pattern]


def _one_block(kind: str, parts: Parts, keys: Keys) -> Layer:
    match kind:
        case "mamba":
            return _mamba2(parts, keys), parts.norms
        case "attention":
            return parts.attention(0), parts.norms
        case "mlp":
            return parts.mlp(), parts.norms
        case "moe":
            return parts.experts(), parts.norms
        case _:
            raise ModelConfigError(
                f"config.json: {kind!r} is no kind of layer; "
                f"allowed: {', '.join(f'{k} ({v})' for k, v in _LETTERS.items())}"
            )


def _jamba(parts: Parts, keys: Keys) -> tuple[Layer, ...]:
    attention, attention_at = (
        keys.count("attn_layer_period"),
        keys.count("attn_layer_offset", 0, least=0),
    )
    expert, expert_at = (
        keys.count("expert_layer_period"),
        keys.count("expert_layer_offset", 0, least=0),
    )
    several = keys.count("num_experts", 1) > 1
    return tuple(
        (
            parts.attention(i)
            if i % attention == attention_at
            else _mamba(parts, keys, normed=True),
            parts.experts() if several and i % expert == expert_at else parts.mlp(),
            parts.norms,
        )
        for i in range(_depth(keys))
    )


def _granite(parts: Parts, keys: Keys) -> tuple[Layer, ...]:
    kinds = keys.items("layer_types") or keys.items("layers_block_type")
    depth = _depth(keys)
    if len(kinds) != depth:
        raise ModelConfigError(
            f"config.json: 'layer_types' has {len(kinds)} entries; allowed: one a layer, {depth}"
        )
    shared = keys.count("num_local_experts", 0, least=0) == 0
    feed = parts.mlp("shared_intermediate_size") if shared else parts.experts()
    return tuple(
        (
            parts.attention(i) if "attention" in str(kind) else _mamba2(parts, keys),
            feed,
            parts.norms,
        )
        for i, kind in enumerate(kinds)
    )


def _bamba(parts: Parts, keys: Keys) -> tuple[Layer, ...]:
    attending = keys.items("attn_layer_indices")
    return tuple(
        (parts.attention(i) if i in attending else _mamba2(parts, keys), parts.mlp(), parts.norms)
        for i in range(_depth(keys))
    )


def _only_mamba(parts: Parts, keys: Keys) -> tuple[Layer, ...]:
    return ((_mamba(parts, keys, normed=False), parts.norms),) * _depth(keys)


def _only_mamba2(parts: Parts, keys: Keys) -> tuple[Layer, ...]:
    return ((_mamba2(parts, keys), parts.norms),) * _depth(keys)


_BUILDERS: Mapping[Build, Callable[[Parts, Keys], tuple[Layer, ...]]] = {
    "uniform": _uniform,
    "nemotron_h": _nemotron_h,
    "jamba": _jamba,
    "granite": _granite,
    "bamba": _bamba,
    "mamba": _only_mamba,
    "mamba2": _only_mamba2,
}


def _mamba(parts: Parts, keys: Keys, *, normed: bool) -> Mamba:
    """`normed`: dt, B and C pass through a norm with weights of their own, as in Jamba."""
    state = keys.count("mamba_d_state")
    rank = keys.value("mamba_dt_rank")
    dt_rank = -(-parts.hidden // 16) if rank in (None, "auto") else keys.count("mamba_dt_rank")
    return Mamba(
        hidden=parts.hidden,
        inner=keys.count("mamba_expand") * parts.hidden,
        state=state,
        dt_rank=dt_rank,
        conv=keys.count("mamba_d_conv"),
        vectors=dt_rank + 2 * state if normed else 0,
    )


def _mamba2(parts: Parts, keys: Keys) -> Mamba2:
    heads, head_dim = keys.value("mamba_n_heads"), keys.value("mamba_d_head")
    inner = None if heads and head_dim not in (None, "auto") else _inner(parts, keys)
    heads = (
        keys.count("mamba_n_heads")
        if heads or inner is None
        else inner // keys.count("mamba_d_head")
    )
    return Mamba2(
        hidden=parts.hidden,
        heads=heads,
        head_dim=keys.count("mamba_d_head") if inner is None else inner // heads,
        state=keys.count("mamba_d_state"),
        groups=keys.count("mamba_n_groups"),
        conv=keys.count("mamba_d_conv"),
    )


def _inner(parts: Parts, keys: Keys) -> int:
    return keys.count("mamba_expand") * parts.hidden


def _prediction_layer(family: Family, parts: Parts, keys: Keys, layers: tuple[Layer, ...]) -> Layer:
    """What a multi-token-prediction step repeats: the last layer, or what the pattern says."""
    if not keys.has("num_nextn_predict_layers"):
        return ()
    pattern = keys.value("mtp_hybrid_override_pattern")
    if family.build == "nemotron_h" and isinstance(pattern, str):
        kinds = (_LETTERS.get(letter, letter) for letter in pattern)
        return tuple(b for kind in kinds for b in _one_block(kind, parts, keys))
    return (*layers[-1], Norm(2 * parts.norm_width))
