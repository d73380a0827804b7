"""State-space blocks: their parameters, and the work that one token causes in a forward pass."""

from __future__ import annotations

from dataclasses import dataclass

from otel_ofu.mfu.flops.blocks import Context

# Decay, input and output of one state of one channel: as Megatron-LM counts a scan.
_SCAN_FLOPS = 7.0


@dataclass(frozen=True, slots=True)
class Mamba:
    """A selective state-space layer of the first kind. Source: Mamba, arXiv:2312.00752."""

    hidden: int
    inner: int
    state: int
    dt_rank: int
    conv: int
    vectors: int = 0

    @property
    def kind(self) -> str:
        return "mamba"

    @property
    def params(self) -> int:
        # Besides matrices: convolution and its bias, dt bias, A and D.
        small = self.inner * (self.conv + 1) + self.inner + self.inner * self.state + self.inner
        return self.active + small + self.vectors

    @property
    def active(self) -> int:
        into_scan = self.inner * (self.dt_rank + 2 * self.state) + self.dt_rank * self.inner
        return 3 * self.hidden * self.inner + into_scan

    def extra_flops(self, context: Context) -> float:  # noqa: ARG002 - as in Block
        return (_SCAN_FLOPS * self.state + 2.0 * self.conv) * self.inner


@dataclass(frozen=True, slots=True)
class Mamba2:
    """A state-space layer of the second kind, with heads. Source: Mamba-2, arXiv:2405.21060."""

    hidden: int
    heads: int
    head_dim: int
    state: int
    groups: int
    conv: int

    @property
    def kind(self) -> str:
        return "mamba"

    @property
    def inner(self) -> int:
        return self.heads * self.head_dim

    @property
    def _convolved(self) -> int:
        return self.inner + 2 * self.groups * self.state

    @property
    def params(self) -> int:
        # Besides matrices: convolution and its bias; A, D, dt bias per head; the gated norm.
        return self.active + self._convolved * (self.conv + 1) + 3 * self.heads + self.inner

    @property
    def active(self) -> int:
        into = self.hidden * (self.inner + self._convolved + self.heads)
        return into + self.inner * self.hidden

    def extra_flops(self, context: Context) -> float:  # noqa: ARG002 - as in Block
        return _SCAN_FLOPS * self.state * self.inner + 2.0 * self.conv * self._convolved
