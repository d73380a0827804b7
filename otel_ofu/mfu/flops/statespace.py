"""State-space blocks: their parameters, and the work that one token causes in a forward pass."""

from __future__ import annotations

from dataclasses import dataclass

from otel_ofu.mfu.flops.blocks import Context
from otel_ofu.mfu.flops.config import Keys, ModelKeyError
from otel_ofu.mfu.flops.parts import Parts

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

    def extra_flops(self, context: Context) -> float:  # noqa: ARG002 - as in ModelBlock
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

    def extra_flops(self, context: Context) -> float:  # noqa: ARG002 - as in ModelBlock
        return _SCAN_FLOPS * self.state * self.inner + 2.0 * self.conv * self._convolved


def mamba(parts: Parts, keys: Keys, *, normed: bool) -> Mamba:
    """`normed`: dt, B and C pass through a norm with weights of their own, as in Jamba."""
    state = keys.count("mamba_d_state")
    dt_rank = keys.count("mamba_dt_rank") if _given(keys, "mamba_dt_rank") else _rank(parts)
    return Mamba(
        hidden=parts.hidden,
        inner=keys.count("mamba_expand") * parts.hidden,
        state=state,
        dt_rank=dt_rank,
        conv=keys.count("mamba_d_conv"),
        vectors=dt_rank + 2 * state if normed else 0,
    )


def mamba2(parts: Parts, keys: Keys) -> Mamba2:
    """Heads and their width; what is absent or `auto` follows from the expansion."""
    heads = keys.count("mamba_n_heads") if _given(keys, "mamba_n_heads") else None
    head_dim = keys.count("mamba_d_head") if _given(keys, "mamba_d_head") else None
    if heads is None or head_dim is None:
        inner = keys.count("mamba_expand") * parts.hidden
        heads = _share(inner, head_dim) if heads is None else heads
        head_dim = _share(inner, heads)
    return Mamba2(
        hidden=parts.hidden,
        heads=heads,
        head_dim=head_dim,
        state=keys.count("mamba_d_state"),
        groups=keys.count("mamba_n_groups"),
        conv=keys.count("mamba_d_conv"),
    )


def _given(keys: Keys, name: str) -> bool:
    return keys.has(name) and keys.value(name) != "auto"


def _rank(parts: Parts) -> int:
    """What `auto` means: a sixteenth of the hidden size, rounded up."""
    return -(-parts.hidden // 16)


def _share(inner: int, of: int | None) -> int:
    if of is None or inner % of:
        raise ModelKeyError(
            f"the Mamba width {inner} has no even share by {of}; "
            "allowed: mamba heads x head size = expansion x hidden size"
        )
    return inner // of
