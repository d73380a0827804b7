"""Models whose layers differ in kind: state-space layers among attention, and those alone.

Enters: the parts and keys of a config. Leaves: the layers in order.
"""

from __future__ import annotations

from otel_ofu.mfu.flops.blocks import Experts
from otel_ofu.mfu.flops.errors import ModelKeyError
from otel_ofu.mfu.flops.keys import Keys
from otel_ofu.mfu.flops.parts import MAX_LAYERS, Parts
from otel_ofu.mfu.flops.scans import mamba, mamba2
from otel_ofu.mfu.flops.shape import Layer

# One letter for a layer in `hybrid_override_pattern`, one word in `layers_block_type`.
_LETTERS = {"M": "mamba", "*": "attention", "-": "mlp", "E": "moe"}


def nemotron_h(parts: Parts, keys: Keys) -> tuple[Layer, ...]:
    """One block a layer, by a pattern of letters or a list of words."""
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


def one_block(kind: str, parts: Parts, keys: Keys) -> Layer:
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
            raise ModelKeyError(f"{kind!r} is no kind of layer; allowed: {allowed}")


def jamba(parts: Parts, keys: Keys) -> tuple[Layer, ...]:
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


def _jamba_experts(parts: Parts, keys: Keys) -> Experts | None:
    return parts.experts() if keys.count("num_experts") > 1 else None


def _is_turn(keys: Keys, of: str, layer: int) -> bool:
    return layer % keys.count(f"{of}_period") == keys.count(f"{of}_offset", least=0)


def granite(parts: Parts, keys: Keys) -> tuple[Layer, ...]:
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


def bamba(parts: Parts, keys: Keys) -> tuple[Layer, ...]:
    """Attention at listed layers, scans at the others."""
    attending, scan = keys.items("attn_layer_indices"), mamba2(parts, keys)
    return tuple(
        (parts.attention(i) if i in attending else scan, parts.mlp(), parts.norms)
        for i in range(parts.depth)
    )


def only_mamba(parts: Parts, keys: Keys) -> tuple[Layer, ...]:
    return ((mamba(parts, keys, normed=False), parts.norms),) * parts.depth


def only_mamba2(parts: Parts, keys: Keys) -> tuple[Layer, ...]:
    return ((mamba2(parts, keys), parts.norms),) * parts.depth
