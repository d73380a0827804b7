"""A model's config -> its blocks, layer by layer, also where layers differ in kind.

Enters: the keys of a config and its family. Leaves: a `ModelShape`: state-space layers among
attention, and those alone, in order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from otel_ofu.mfu.flops.blocks import Experts, Layer, ModelShape, Norm
from otel_ofu.mfu.flops.config import Build, Family, Keys, ModelKeyError, load_families, text_model
from otel_ofu.mfu.flops.parts import MAX_LAYERS, ModelParts, mamba, mamba2

# One letter for a layer in `hybrid_override_pattern`, one word in `layers_block_type`.
_LETTERS = {"M": "mamba", "*": "attention", "-": "mlp", "E": "moe"}


def nemotron_h(parts: ModelParts, keys: Keys) -> tuple[Layer, ...]:
    """One block a layer, by a pattern of letters or a list of names."""
    if keys.has("layers_block_type"):
        kinds = [str(kind) for kind in keys.items("layers_block_type")]
    else:
        kinds = kinds_of(keys.value("hybrid_override_pattern"))
    made = {kind: one_block(kind, parts, keys) for kind in dict.fromkeys(kinds)}
    return tuple(made[kind] for kind in kinds)


def kinds_of(pattern: object) -> list[str]:
    """The kinds of layers that a pattern stands for. Raises ModelConfigError."""
    if not isinstance(pattern, str) or not 0 < len(pattern) <= MAX_LAYERS:
        raise ModelKeyError("'hybrid_override_pattern' is missing; allowed: one of M * - E a layer")
    return [_LETTERS.get(letter, letter) for letter in pattern]


def one_block(kind: str, parts: ModelParts, keys: Keys) -> Layer:
    """A layer with one block of this kind. Raises ModelConfigError for another word."""
    match kind:
        case "mamba":
            return mamba2(parts, keys), parts.norms
        case "attention":
            return parts.attention(0), parts.norms
        case "mlp":
            return parts.mlp(), parts.norms
        case "moe":
            return parts.experts(), parts.norms
        case _:
            allowed = ", ".join(f"{letter} ({word})" for letter, word in _LETTERS.items())
            raise ModelKeyError(f"{kind!r} is not a kind of layer; allowed: {allowed}")


def jamba(parts: ModelParts, keys: Keys) -> tuple[Layer, ...]:
    """Attention and experts each every so many layers, from an offset on."""
    scan, experts = mamba(parts, keys, normed=True), _jamba_experts(parts, keys)
    return tuple(
        (
            parts.attention(i) if _is_turn(keys, "attn_layer", i) else scan,
            experts if experts and _is_turn(keys, "expert_layer", i) else parts.mlp(),
            parts.norms,
        )
        for i in range(parts.depth)
    )


def _jamba_experts(parts: ModelParts, keys: Keys) -> Experts | None:
    return parts.experts() if keys.count("num_experts") > 1 else None


def _is_turn(keys: Keys, of: str, layer: int) -> bool:
    return layer % keys.count(f"{of}_period") == keys.count(f"{of}_offset", least=0)


def granite(parts: ModelParts, keys: Keys) -> tuple[Layer, ...]:
    """Attention or scan by a list; the same feed-forward in all, experts or shared alone."""
    kinds = keys.items("layer_types") or keys.items("layers_block_type")
    if len(kinds) != parts.depth:
        raise ModelKeyError(
            f"'layer_types' has {len(kinds)} entries; allowed: one a layer, {parts.depth}"
        )
    sparse = keys.count("num_local_experts", 0, least=0) > 0
    feed = parts.experts() if sparse else parts.mlp("shared_intermediate_size")
    attending = {i for i, kind in enumerate(kinds) if "attention" in str(kind)}
    scan = None if len(attending) == parts.depth else mamba2(parts, keys)
    return tuple(
        (parts.attention(i) if scan is None or i in attending else scan, feed, parts.norms)
        for i in range(parts.depth)
    )


def bamba(parts: ModelParts, keys: Keys) -> tuple[Layer, ...]:
    """Attention at listed layers, scans at the others."""
    attending, scan = keys.items("attn_layer_indices"), mamba2(parts, keys)
    return tuple(
        (parts.attention(i) if i in attending else scan, parts.mlp(), parts.norms)
        for i in range(parts.depth)
    )


def only_mamba(parts: ModelParts, keys: Keys) -> tuple[Layer, ...]:
    return ((mamba(parts, keys, normed=False), parts.norms),) * parts.depth


def only_mamba2(parts: ModelParts, keys: Keys) -> tuple[Layer, ...]:
    return ((mamba2(parts, keys), parts.norms),) * parts.depth


def read_shape(config: Mapping[str, Any]) -> ModelShape:
    """The blocks of a model from its Hugging Face config.json.

    Raises ModelConfigError for an unknown model type, a missing key, or an impossible value.
    """
    model_type, inner, notes = text_model(config)
    family = load_families()[model_type]
    keys = Keys(inner, family.aliases, family.defaults)
    parts = ModelParts(keys, family)
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


def _uniform(parts: ModelParts, _: Keys) -> tuple[Layer, ...]:
    return tuple(
        (parts.attention(i), parts.feed_forward(i), parts.norms) for i in range(parts.depth)
    )


_BUILDERS: Mapping[Build, Callable[[ModelParts, Keys], tuple[Layer, ...]]] = {
    "uniform": _uniform,
    "nemotron_h": nemotron_h,
    "jamba": jamba,
    "granite": granite,
    "bamba": bamba,
    "mamba": only_mamba,
    "mamba2": only_mamba2,
}


def _prediction_layer(
    family: Family, parts: ModelParts, keys: Keys, layers: tuple[Layer, ...]
) -> Layer:
    """What a multi-token-prediction step repeats: the last layer, or what the pattern has."""
    if not keys.count("num_nextn_predict_layers", 0, least=0) or not layers:
        return ()
    if family.build == "nemotron_h" and keys.has("mtp_hybrid_override_pattern"):
        kinds = kinds_of(keys.value("mtp_hybrid_override_pattern"))
        return tuple(b for kind in kinds for b in one_block(kind, parts, keys))
    return (*layers[-1], Norm(2 * parts.norm_width))
