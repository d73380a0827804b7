"""The blocks of a decoder: their parameters, and the work that one token causes in a forward pass.

Leaves, for each block: `params` (all weights), `active` (weights that are multiplied with each
token; one multiply-add is 2 FLOPs) and `extra_flops(context)` (work without weights: attention
scores, state-space scans). `context` is what one query sees on average.
`ModelShape` is a whole decoder as blocks, and the counts over it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Protocol

Context = Callable[[int | None], float]
"""How many keys a query sees on average, given the sliding window of the layer (None: all)."""


class ModelBlock(Protocol):
    """One part of a layer. `kind` groups blocks in a breakdown."""

    kind: ClassVar[str]

    @property
    def active(self) -> int:
        return 0

    @property
    def vectors(self) -> int:
        """Weights that are multiplied with no token: norms and biases."""
        return 0

    @property
    def params(self) -> int:
        return self.active + self.vectors

    def extra_flops(self, context: Context) -> float:  # noqa: ARG002 - most have none
        return 0.0


@dataclass(frozen=True, slots=True)
class Norm(ModelBlock):
    """Normalisation weights and other vectors: parameters without FLOPs worth counting."""

    kind: ClassVar = "norm"
    vectors: int = 0


@dataclass(frozen=True, slots=True)
class Attention(ModelBlock):
    """Multi-head attention; fewer `kv_heads` than `heads` is grouped-query attention.

    Grouping shrinks the key and value projections, not the scores.
    Source: Megatron-LM, arXiv:2205.05198, appendix A; PaLM, arXiv:2204.02311, appendix B.
    """

    kind: ClassVar = "attention"
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    window: int | None = None
    vectors: int = 0

    @property
    def active(self) -> int:
        return self.hidden * self.head_dim * 2 * (self.heads + self.kv_heads)

    def extra_flops(self, context: Context) -> float:
        return 4.0 * self.heads * self.head_dim * context(self.window)


@dataclass(frozen=True, slots=True)
class LatentAttention(ModelBlock):
    """Multi-head latent attention: keys and values through a narrow shared projection.

    `q_rank` None means that queries are projected directly.
    Source: DeepSeek-V2, arXiv:2405.04434, section 2.1.
    """

    kind: ClassVar = "attention"
    hidden: int
    heads: int
    q_rank: int | None
    kv_rank: int
    nope_dim: int
    rope_dim: int
    v_dim: int
    vectors: int = 0

    @property
    def active(self) -> int:
        query = self.heads * (self.nope_dim + self.rope_dim)
        into_query = (
            self.hidden * query if self.q_rank is None else self.q_rank * (self.hidden + query)
        )
        into_latent = self.hidden * (self.kv_rank + self.rope_dim)
        out_of_latent = self.kv_rank * self.heads * (self.nope_dim + self.v_dim)
        return into_query + into_latent + out_of_latent + self.heads * self.v_dim * self.hidden

    def extra_flops(self, context: Context) -> float:
        return 2.0 * self.heads * (self.nope_dim + self.rope_dim + self.v_dim) * context(None)


@dataclass(frozen=True, slots=True)
class Mlp(ModelBlock):
    """A feed-forward block; three matrices with a gate (SwiGLU, GeGLU), two without."""

    kind: ClassVar = "mlp"
    hidden: int
    inner: int
    gated: bool = True
    vectors: int = 0

    @property
    def active(self) -> int:
        return self.hidden * self.inner * (3 if self.gated else 2)


@dataclass(frozen=True, slots=True)
class Experts(ModelBlock):
    """A mixture of experts: `chosen` of `count` routed experts for each token, and shared ones.

    With `latent`, tokens are projected down to that width before the routed experts and up again
    after them; router and shared experts stay at the full width.
    Source: LatentMoE as in Nemotron 3, arXiv:2512.20856.
    """

    kind: ClassVar = "experts"
    expert: Mlp
    count: int
    chosen: int
    shared: Mlp | None = None
    latent: int | None = None
    hidden: int = 0
    vectors: int = 0

    @property
    def around(self) -> int:
        """Router, shared experts and latent projections: weights that every token meets."""
        shared = 0 if self.shared is None else self.shared.active
        latent = 0 if self.latent is None else 2 * self.hidden * self.latent
        return self.hidden * self.count + shared + latent

    @property
    def params(self) -> int:
        shared_vectors = 0 if self.shared is None else self.shared.vectors
        return self.around + shared_vectors + self.count * self.expert.params + self.vectors

    @property
    def active(self) -> int:
        return self.around + self.chosen * self.expert.active


# Decay, input and output of one state of one channel: as Megatron-LM counts a scan.
_SCAN_FLOPS = 7.0


@dataclass(frozen=True, slots=True)
class Mamba(ModelBlock):
    """A selective state-space layer of the first kind. Source: Mamba, arXiv:2312.00752."""

    kind: ClassVar = "mamba"
    hidden: int
    inner: int
    state: int
    dt_rank: int
    conv: int
    vectors: int = 0

    @property
    def params(self) -> int:
        # Besides matrices: convolution and its bias, dt bias, A and D.
        small = self.inner * (self.conv + 1) + self.inner + self.inner * self.state + self.inner
        return self.active + small + self.vectors

    @property
    def active(self) -> int:
        into_scan = self.inner * (self.dt_rank + 2 * self.state) + self.dt_rank * self.inner
        return 3 * self.hidden * self.inner + into_scan

    def extra_flops(self, context: Context) -> float:  # noqa: ARG002 - as in ModelBlock
        return (_SCAN_FLOPS * self.state + 2.0 * self.conv) * self.inner


@dataclass(frozen=True, slots=True)
class Mamba2(ModelBlock):
    """A state-space layer of the second kind, with heads. Source: Mamba-2, arXiv:2405.21060."""

    kind: ClassVar = "mamba"
    hidden: int
    heads: int
    head_dim: int
    state: int
    groups: int
    conv: int

    @property
    def inner(self) -> int:
        return self.heads * self.head_dim

    @property
    def _convolved(self) -> int:
        return self.inner + 2 * self.groups * self.state

    @property
    def vectors(self) -> int:
        # Convolution and its bias; A, D, dt bias per head; the gated norm.
        return self._convolved * (self.conv + 1) + 3 * self.heads + self.inner

    @property
    def active(self) -> int:
        into = self.hidden * (self.inner + self._convolved + self.heads)
        return into + self.inner * self.hidden

    def extra_flops(self, context: Context) -> float:  # noqa: ARG002 - as in ModelBlock
        return _SCAN_FLOPS * self.state * self.inner + 2.0 * self.conv * self._convolved


Layer = tuple[ModelBlock, ...]


@dataclass(frozen=True, slots=True)
class ModelShape:
    """A decoder-only model: embedding, layers, final norm, head.

    `tied` models use the embedding as the head: one matrix in `params`, multiplied all the same.
    `prediction_layer` is what one multi-token-prediction step adds besides the head, when known.
    """

    model_type: str
    hidden: int
    vocab: int
    tied: bool
    layers: tuple[Layer, ...]
    vectors: int = 0
    positions: int = 0
    prediction_layer: Layer = ()
    notes: tuple[str, ...] = ()

    @property
    def head(self) -> int:
        return self.vocab * self.hidden

    @property
    def embedding(self) -> int:
        return (self.vocab + self.positions) * self.hidden

    @property
    def blocks(self) -> tuple[ModelBlock, ...]:
        return tuple(block for layer in self.layers for block in layer)

    @property
    def params(self) -> int:
        """All parameters, embeddings included."""
        head = 0 if self.tied else self.head
        return self.embedding + head + self.vectors + sum(b.params for b in self.blocks)

    @property
    def active(self) -> int:
        """Parameters multiplied with each token: the head, but neither embedding nor norms."""
        return self.head + sum(block.active for block in self.blocks)
