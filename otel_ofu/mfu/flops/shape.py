"""A whole decoder as blocks, and the counts over it."""

from __future__ import annotations

from dataclasses import dataclass

from otel_ofu.mfu.flops.blocks import Block

Layer = tuple[Block, ...]


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
    def blocks(self) -> tuple[Block, ...]:
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
