"""The blocks of a model, from the keys of its config."""

from __future__ import annotations

from otel_ofu.mfu.flops.blocks import Attention, Experts, LatentAttention, Mamba, Mamba2, Mlp, Norm
from otel_ofu.mfu.flops.config import Family, Keys, ModelKeyError

MAX_LAYERS = 10_000  # starting value: above any model
_NORM_VECTORS = {"rms": 1, "layer": 2, "none": 0}
_EXPERT_COUNTS = ("num_experts", "num_local_experts", "n_routed_experts")


class ModelParts:
    """Makes the blocks of one model; layers differ only in windows and in being dense."""

    def __init__(self, keys: Keys, family: Family) -> None:
        self._keys = keys
        self._family = family
        self.hidden = keys.count("hidden_size")
        self.norm_width = _NORM_VECTORS[family.norm] * self.hidden

    @property
    def depth(self) -> int:
        depth = self._keys.count("num_hidden_layers")
        if depth > MAX_LAYERS:
            raise ModelKeyError(f"num_hidden_layers is {depth}; allowed: 1 to {MAX_LAYERS}")
        return depth

    @property
    def norms(self) -> Norm:
        return Norm(self._family.norms * self.norm_width)

    def attention(self, layer: int) -> Attention | LatentAttention:
        if self._family.latent:
            return self._latent_attention()
        keys, heads = self._keys, self._keys.count("num_attention_heads")
        kv_heads = keys.count("num_key_value_heads", heads)
        head_dim = keys.count("head_dim", self._even_share(heads))
        return Attention(
            hidden=self.hidden,
            heads=heads,
            kv_heads=kv_heads,
            head_dim=head_dim,
            window=self._window(layer),
            vectors=self._attention_vectors(heads, kv_heads, head_dim),
        )

    def _even_share(self, heads: int) -> int | None:
        return self.hidden // heads if self.hidden % heads == 0 else None

    def _attention_vectors(self, heads: int, kv_heads: int, head_dim: int) -> int:
        bias = self._family.bias
        if bias == "attention_bias":
            bias = "all" if self._keys.flag(bias) else "none"
        vectors = 0 if bias == "none" else (heads + 2 * kv_heads) * head_dim
        vectors += self.hidden if bias == "all" else 0
        vectors += heads if self._family.sinks else 0
        norms = {"none": 0, "head": 2, "all": heads + kv_heads}
        return vectors + norms[self._family.qk_norm] * head_dim

    def _latent_attention(self) -> LatentAttention:
        keys = self._keys
        q_rank, kv_rank = keys.optional("q_lora_rank"), keys.count("kv_lora_rank")
        return LatentAttention(
            hidden=self.hidden,
            heads=keys.count("num_attention_heads"),
            q_rank=q_rank,
            kv_rank=kv_rank,
            nope_dim=keys.count("qk_nope_head_dim"),
            rope_dim=keys.count("qk_rope_head_dim"),
            v_dim=keys.count("v_head_dim"),
            vectors=(q_rank or 0) + kv_rank,
        )

    def _window(self, layer: int) -> int | None:
        types = self._keys.items("layer_types")
        if types and layer < len(types) and "attention" in str(types[layer]):
            slides = "sliding" in str(types[layer])
        else:
            slides = self._slides(layer)
        return self._keys.optional("sliding_window") if slides else None

    def _slides(self, layer: int) -> bool:
        match self._family.window:
            case "none":
                return False
            case "all":
                return True
            case "even":
                return layer % 2 == 0
            case "every":
                return (layer + 1) % self._keys.count("sliding_window_pattern") != 0
            case "switch":
                first = self._keys.count("max_window_layers", 0, least=0)
                return self._keys.flag("use_sliding_window") and layer >= first

    def feed_forward(self, layer: int) -> Mlp | Experts:
        return self.experts() if self._is_sparse(layer) else self.mlp()

    def _is_sparse(self, layer: int) -> bool:
        keys = self._keys
        if not self._family.experts or layer in keys.items("mlp_only_layers"):
            return False
        if layer < keys.count("first_k_dense_replace", 0, least=0):
            return False
        step = keys.count("decoder_sparse_step", 1)
        return (layer + 1) % step == 0 and layer % keys.count("moe_layer_freq", 1) == 0

    def mlp(self, key: str = "intermediate_size") -> Mlp:
        # GPT-2 writes null for four times the width; others always have it.
        usual = 4 * self.hidden if not self._family.gated else None
        return self._feed(self.hidden, self._keys.count(key, usual), biased=self._mlp_biased())

    def _mlp_biased(self) -> bool:
        bias = self._family.mlp_bias
        return bias == "all" or (bias == "mlp_bias" and self._keys.flag(bias))

    def _feed(self, width: int, inner: int, *, biased: bool) -> Mlp:
        gated = self._family.gated
        vectors = (2 if gated else 1) * inner + width if biased else 0
        return Mlp(width, inner, gated=gated, vectors=vectors)

    def experts(self) -> Experts:
        keys, count = self._keys, self._expert_count()
        chosen = keys.count("num_experts_per_tok")
        if chosen > count:
            raise ModelKeyError(f"num_experts_per_tok is {chosen}; allowed: up to {count} experts")
        latent = keys.optional("moe_latent_size")
        inner = keys.count("moe_intermediate_size", keys.optional("intermediate_size"))
        shared = self._shared(inner)
        gate = self.hidden if shared and self._family.shared_gate else 0
        return Experts(
            expert=self._feed(latent or self.hidden, inner, biased=self._family.expert_bias),
            count=count,
            chosen=chosen,
            shared=shared,
            latent=latent,
            hidden=self.hidden,
            vectors=gate + (count if self._family.score_bias else 0),
        )

    def _expert_count(self) -> int:
        for name in _EXPERT_COUNTS:
            if self._keys.has(name):
                return self._keys.count(name)
        raise ModelKeyError(f"the number of experts is missing; allowed: one of {_EXPERT_COUNTS}")

    def _shared(self, expert_inner: int) -> Mlp | None:
        keys = self._keys
        for name in ("shared_expert_intermediate_size", "shared_intermediate_size"):
            if keys.count(name, 0, least=0):
                return self._feed(self.hidden, keys.count(name), biased=False)
        shared = keys.count("n_shared_experts", 0, least=0)
        each = keys.count("moe_shared_expert_intermediate_size", expert_inner)
        return self._feed(self.hidden, shared * each, biased=False) if shared else None


def mamba(parts: ModelParts, keys: Keys, *, normed: bool) -> Mamba:
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


def mamba2(parts: ModelParts, keys: Keys) -> Mamba2:
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


def _rank(parts: ModelParts) -> int:
    """What `auto` means: a sixteenth of the hidden size, rounded up."""
    return -(-parts.hidden // 16)


def _share(inner: int, of: int | None) -> int:
    if of is None or inner % of:
        raise ModelKeyError(
            f"the Mamba width {inner} has no even share by {of}; "
            "allowed: mamba heads x head size = expansion x hidden size"
        )
    return inner // of
