"""The blocks of a decoder: their parameters, and the work that one token causes in a forward pass.

Leaves, for each block: `params` (all weights), `active` (weights that are multiplied with each
token; one multiply-add is 2 FLOPs) and `extra_flops(context)` (work without weights: attention
scores, state-space scans). `context` is what one query sees on average.
`ModelShape` is a whole decoder as blocks, and the counts over it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

Context = Callable[[int | None], float]
"""How many keys a query sees on average, given the sliding window of the layer (None: all)."""


class ModelBlock(Protocol):
    """One part of a layer. `kind` groups blocks in a breakdown."""

    @property
    def kind(self) -> str: ...

    @property
    def params(self) -> int: ...

    @property
    def active(self) -> int: ...

    def extra_flops(self, context: Context) -> float: ...


@dataclass(frozen=True, slots=True)
class Norm:
    """Normalisation weights and other vectors: parameters without FLOPs worth counting."""

    params: int

    @property
    def kind(self) -> str:
        return "norm"

    @property
    def active(self) -> int:
        return 0

    def extra_flops(self, context: Context) -> float:  # noqa: ARG002 - as in ModelBlock
        return 0.0


@dataclass(frozen=True, slots=True)
class Attention:
    """Multi-head attention; fewer `kv_heads` than `heads` is grouped-query attention.

    Grouping shrinks the key and value projections, not the scores.
    Source: Megatron-LM, arXiv:2205.05198, appendix A; PaLM, arXiv:2204.02311, appendix B.
    """

    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    window: int | None = None
    vectors: int = 0

    @property
    def kind(self) -> str:
        return "attention"

    @property
    def params(self) -> int:
        return self.active + self.vectors

    @property
    def active(self) -> int:
        return self.hidden * self.head_dim * 2 * (self.heads + self.kv_heads)

    def extra_flops(self, context: Context) -> float:
        return 4.0 * self.heads * self.head_dim * context(self.window)


@dataclass(frozen=True, slots=True)
class LatentAttention:
    """Multi-head latent attention: keys and values through a narrow shared projection.

    `q_rank` None means that queries are projected directly.
    Source: DeepSeek-V2, arXiv:2405.04434, section 2.1.
    """

    hidden: int
    heads: int
    q_rank: int | None
    kv_rank: int
    nope_dim: int
    rope_dim: int
    v_dim: int
    vectors: int = 0

    @property
    def kind(self) -> str:
        return "attention"

    @property
    def params(self) -> int:
        return self.active + self.vectors

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
class Mlp:
    """A feed-forward block; three matrices with a gate (SwiGLU, GeGLU), two without."""

    hidden: int
    inner: int
    gated: bool = True
    vectors: int = 0

    @property
    def kind(self) -> str:
        return "mlp"

    @property
    def params(self) -> int:
        return self.active + self.vectors

    @property
    def active(self) -> int:
        return self.hidden * self.inner * (3 if self.gated else 2)

    def extra_flops(self, context: Context) -> float:  # noqa: ARG002 - as in ModelBlock
        return 0.0


@dataclass(frozen=True, slots=True)
class Experts:
    """A mixture of experts: `chosen` of `count` routed experts for each token, and shared ones.

    With `latent`, tokens are projected down to that width before the routed experts and up again
    after them; router and shared experts stay at the full width.
    Source: LatentMoE as in Nemotron 3, arXiv:2512.20856.
    """

    expert: Mlp
    count: int
    chosen: int
    shared: Mlp | None = None
    latent: int | None = None
    hidden: int = 0
    vectors: int = 0

    @property
    def kind(self) -> str:
        return "experts"

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

    def extra_flops(self, context: Context) -> float:  # noqa: ARG002 - as in ModelBlock
        return 0.0


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
