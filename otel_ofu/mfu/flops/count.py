"""Model FLOPs for each token, from a Hugging Face config.json; and how usual formulas go wrong.

Conventions, as the field has them: one multiply-add is 2 FLOPs; training is three times the
forward pass; recomputed activations, norms, softmax and embedding look-ups are not counted; the
head is; causal attention is half of full attention. The ratio of a mistake is what a job's MFU is
multiplied by when its framework counts that way.
Source: PaLM, arXiv:2204.02311, appendix B; Megatron-LM, arXiv:2205.05198, appendix A.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from otel_ofu.mfu.flops.blocks import (
    Attention,
    Context,
    Experts,
    Mamba,
    Mamba2,
    Mlp,
    ModelBlock,
    ModelShape,
)
from otel_ofu.mfu.flops.config import ModelConfigError
from otel_ofu.mfu.flops.layers import read_shape

Masking = Literal["causal", "full"]
MAX_TOKENS = 1e9  # starting value: above any sequence


@dataclass(frozen=True, slots=True)
class FlopsPart:
    """FLOPs for one token in a forward pass: in matrices, and in scores or scans."""

    name: str
    matrix_flops: float
    extra_flops: float

    @property
    def flops(self) -> float:
        return self.matrix_flops + self.extra_flops


@dataclass(frozen=True, slots=True)
class FlopsBreakdown:
    """What one token costs. All FLOPs are for one token; parameters are counts.

    `params_active` are those that are multiplied with each token: the head is among them, the
    embedding is not (a look-up), nor are norms.
    """

    model_type: str
    seq_len: float
    masking: Masking
    params_total: int
    params_active: int
    parts: tuple[FlopsPart, ...]
    notes: tuple[str, ...] = ()

    @property
    def forward(self) -> float:
        return sum(part.flops for part in self.parts)

    @property
    def training(self) -> float:
        """Forward and backward: three times the forward pass."""
        return 3.0 * self.forward


def model_flops(
    config: Mapping[str, Any],
    seq_len: float,
    *,
    masking: Masking = "causal",
    mtp_layers: int = 0,
) -> FlopsBreakdown:
    """FLOPs for one token of the model that this config.json describes.

    `seq_len` is in tokens; for documents packed into one sequence give `packed_length` of them.
    `mtp_layers` adds multi-token-prediction steps of training. Raises ModelConfigError.
    """
    if not 1 <= seq_len <= MAX_TOKENS:
        raise ModelConfigError(
            f"sequence length {seq_len!r}; allowed: 1 to {MAX_TOKENS:.0f} tokens"
        )
    return count(read_shape(config), seq_len, masking=masking, mtp_layers=mtp_layers)


def count(
    shape: ModelShape, seq_len: float, *, masking: Masking = "causal", mtp_layers: int = 0
) -> FlopsBreakdown:
    """The FLOPs of a shape; see `model_flops` for the parameters."""
    context = _context(seq_len, masking)
    parts = _by_kind(shape.blocks, context)
    parts.append(FlopsPart("head", 2.0 * shape.head, 0.0))
    if mtp_layers:
        parts.append(_prediction(shape, mtp_layers, context))
    notes = shape.notes
    if shape.prediction_layer and not mtp_layers:
        notes = (*notes, "multi-token prediction is not counted (mtp_layers is 0)")
    return FlopsBreakdown(
        model_type=shape.model_type,
        seq_len=seq_len,
        masking=masking,
        params_total=shape.params,
        params_active=shape.active,
        parts=tuple(parts),
        notes=notes,
    )


def packed_length(documents: Sequence[float]) -> float:
    """The sequence length that stands for packed documents: sum of squares over sum of lengths.

    Attention does not cross documents, so its mean context is that of this length. Raises
    ValueError without a length above 0.
    """
    if not documents or min(documents) <= 0:
        raise ValueError("document lengths: expected at least one, each above 0 tokens")
    return math.fsum(n * n for n in documents) / math.fsum(documents)


def _context(seq_len: float, masking: Masking) -> Context:
    def seen(window: int | None) -> float:
        width = seq_len if window is None else min(float(window), seq_len)
        # Of a causal window the first `width` queries see half of it on average.
        return width if masking == "full" else width - width * width / (2.0 * seq_len)

    return seen


def _by_kind(blocks: Sequence[ModelBlock], context: Context) -> list[FlopsPart]:
    kinds = dict.fromkeys(b.kind for b in blocks if b.active)
    return [
        FlopsPart(
            kind,
            2.0 * sum(b.active for b in blocks if b.kind == kind),
            math.fsum(b.extra_flops(context) for b in blocks if b.kind == kind),
        )
        for kind in kinds
    ]


def _prediction(shape: ModelShape, steps: int, context: Context) -> FlopsPart:
    """Each step: two hidden states joined into one, a layer, and the head again.

    Source: DeepSeek-V3, arXiv:2412.19437, section 2.2.
    """
    if not shape.prediction_layer:
        raise ModelConfigError("mtp_layers: this config has no multi-token prediction; allowed: 0")
    layer = shape.prediction_layer
    matrices = 2 * shape.hidden**2 + shape.head + sum(b.active for b in layer)
    extra = math.fsum(b.extra_flops(context) for b in layer)
    return FlopsPart("mtp", 2.0 * steps * matrices, steps * extra)


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
