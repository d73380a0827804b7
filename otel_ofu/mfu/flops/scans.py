"""State-space blocks from the keys of a config."""

from __future__ import annotations

from otel_ofu.mfu.flops.errors import ModelKeyError
from otel_ofu.mfu.flops.keys import Keys
from otel_ofu.mfu.flops.parts import Parts
from otel_ofu.mfu.flops.statespace import Mamba, Mamba2


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
