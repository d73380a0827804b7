"""How the usual formulas go wrong for a model: each with what it gives and the ratio to the truth.

Enters: a model's shape. Leaves: the mistakes that change the figure for this model. A ratio is
what a job's MFU is multiplied by when its framework counts that way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from otel_ofu.mfu.flops.blocks import Attention, Experts, Mlp, ModelBlock, ModelShape
from otel_ofu.mfu.flops.count import FlopsBreakdown, Masking, count
from otel_ofu.mfu.flops.statespace import Mamba, Mamba2

# Smaller differences are not worth a line: rounding of published figures is of that size.
LEAST_DIFFERENCE = 0.001


@dataclass(frozen=True, slots=True)
class CommonMistake:
    """A wrong way to count: training FLOPs for one token, and their ratio to the right count."""

    id: str
    title: str
    flops: float
    ratio: float


def usual_mistakes(shape: ModelShape, truth: FlopsBreakdown) -> tuple[CommonMistake, ...]:
    """The mistakes that matter for this model, the largest deviation first.

    `truth` is the count of the same shape, by which sequence length and masking are given.
    """
    found = (
        CommonMistake(id_, title, flops, flops / truth.training)
        for id_, title, flops in _counted(shape, truth)
    )
    matter = [m for m in found if abs(m.ratio - 1.0) >= LEAST_DIFFERENCE]
    return tuple(sorted(matter, key=lambda m: max(m.ratio, 1.0 / m.ratio), reverse=True))


def _counted(shape: ModelShape, truth: FlopsBreakdown) -> Iterator[tuple[str, str, float]]:
    scores = 3.0 * sum(part.extra_flops for part in truth.parts)
    right = truth.training
    yield "total_parameters", "6N with all parameters, no attention", 6.0 * shape.params
    yield "no_attention", "6N with active parameters, no attention or scans", right - scores
    yield "embedding", "the embedding look-up counted as a matrix", right + 6.0 * shape.embedding
    yield "no_head", "the head not counted", right - 6.0 * shape.head
    yield "recompute", "recomputation counted (8N): this is HFU", right * 4.0 / 3.0
    yield "macs", "multiply-adds taken for FLOPs", right / 2.0
    yield from _recounted(shape, truth)


_Change = Callable[[ModelBlock], ModelBlock]


def _recounted(shape: ModelShape, truth: FlopsBreakdown) -> Iterator[tuple[str, str, float]]:
    other: Masking = "full" if truth.masking == "causal" else "causal"
    kept: _Change = lambda block: block  # noqa: E731 - the shape as it is
    yield (
        f"{other}_attention",
        f"{other} instead of {truth.masking} attention",
        _with(shape, truth, kept, other),
    )
    changes: tuple[tuple[str, str, _Change], ...] = (
        ("no_window", "sliding windows taken for full context", _without_window),
        ("all_experts", "all experts counted for each token", _all_experts),
        ("wide_experts", "experts counted at the full hidden size", _wide_experts),
        ("no_shared_experts", "shared experts not counted", _without_shared),
        ("no_gate", "gated feed-forward counted as two matrices", _without_gate),
        ("mamba_as_attention", "Mamba layers counted as attention", _mamba_as_attention(shape)),
    )
    for id_, title, change in changes:
        yield id_, title, _with(shape, truth, change, truth.masking)


def _with(shape: ModelShape, truth: FlopsBreakdown, change: _Change, masking: Masking) -> float:
    layers = tuple(tuple(change(block) for block in layer) for layer in shape.layers)
    return count(replace(shape, layers=layers), truth.seq_len, masking=masking).training


def _without_window(block: ModelBlock) -> ModelBlock:
    return replace(block, window=None) if isinstance(block, Attention) else block


def _all_experts(block: ModelBlock) -> ModelBlock:
    return replace(block, chosen=block.count) if isinstance(block, Experts) else block


def _wide_experts(block: ModelBlock) -> ModelBlock:
    if not isinstance(block, Experts) or block.latent is None:
        return block
    return replace(block, latent=None, expert=replace(block.expert, hidden=block.hidden))


def _without_shared(block: ModelBlock) -> ModelBlock:
    return replace(block, shared=None) if isinstance(block, Experts) else block


def _without_gate(block: ModelBlock) -> ModelBlock:
    if isinstance(block, Experts):
        shared = None if block.shared is None else replace(block.shared, gated=False)
        return replace(block, expert=replace(block.expert, gated=False), shared=shared)
    return replace(block, gated=False) if isinstance(block, Mlp) else block


def _mamba_as_attention(shape: ModelShape) -> _Change:
    attention = next((b for b in shape.blocks if isinstance(b, Attention)), None)

    def change(block: ModelBlock) -> ModelBlock:
        mamba = isinstance(block, Mamba | Mamba2)
        return attention if mamba and attention is not None else block

    return change
