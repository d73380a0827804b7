"""Model FLOPs for each token, from a Hugging Face config.json.

Conventions, as the field has them: one multiply-add is 2 FLOPs; training is three times the
forward pass; recomputed activations, norms, softmax and embedding look-ups are not counted; the
head is; causal attention is half of full attention.
Source: PaLM, arXiv:2204.02311, appendix B; Megatron-LM, arXiv:2205.05198, appendix A.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from otel_ofu.mfu.flops.blocks import Context, ModelBlock, ModelShape
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
