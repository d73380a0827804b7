"""Hyperparameters of published models, as their config.json and papers give them."""

from __future__ import annotations

from typing import Any

Config = dict[str, Any]


def llama(
    hidden: int, layers: int, heads: int, inner: int, *, kv_heads: int = 8, vocab: int = 128256
) -> Config:
    return {
        "model_type": "llama",
        "hidden_size": hidden,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "intermediate_size": inner,
        "vocab_size": vocab,
    }


LLAMA2_7B = llama(4096, 32, 32, 11008, kv_heads=32, vocab=32000)
LLAMA3_8B = llama(4096, 32, 32, 14336)
LLAMA3_70B = llama(8192, 80, 64, 28672)
LLAMA3_405B = llama(16384, 126, 128, 53248)

GPT2: Config = {"model_type": "gpt2", "n_embd": 768, "n_layer": 12, "n_head": 12}
GPT2_XL: Config = {"model_type": "gpt2", "n_embd": 1600, "n_layer": 48, "n_head": 25}

GPT_NEOX_20B: Config = {
    "model_type": "gpt_neox",
    "hidden_size": 6144,
    "num_hidden_layers": 44,
    "num_attention_heads": 64,
    "intermediate_size": 24576,
    "vocab_size": 50432,
    "tie_word_embeddings": False,
}

MISTRAL_7B: Config = {
    **llama(4096, 32, 32, 14336, vocab=32000),
    "model_type": "mistral",
    "sliding_window": 4096,
}
MIXTRAL_8X7B: Config = {
    **llama(4096, 32, 32, 14336, vocab=32000),
    "model_type": "mixtral",
    "sliding_window": None,
    "num_local_experts": 8,
    "num_experts_per_tok": 2,
}

QWEN25_7B: Config = {
    "model_type": "qwen2",
    "hidden_size": 3584,
    "num_hidden_layers": 28,
    "num_attention_heads": 28,
    "num_key_value_heads": 4,
    "intermediate_size": 18944,
    "vocab_size": 152064,
    "use_sliding_window": False,
    "sliding_window": 131072,
    "max_window_layers": 28,
}
QWEN3_8B: Config = {
    "model_type": "qwen3",
    "hidden_size": 4096,
    "num_hidden_layers": 36,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "intermediate_size": 12288,
    "vocab_size": 151936,
    "attention_bias": False,
}
QWEN15_MOE: Config = {
    "model_type": "qwen2_moe",
    "hidden_size": 2048,
    "num_hidden_layers": 24,
    "num_attention_heads": 16,
    "num_key_value_heads": 16,
    "intermediate_size": 5632,
    "moe_intermediate_size": 1408,
    "shared_expert_intermediate_size": 5632,
    "num_experts": 60,
    "num_experts_per_tok": 4,
    "vocab_size": 151936,
}
QWEN3_30B_A3B: Config = {
    "model_type": "qwen3_moe",
    "hidden_size": 2048,
    "num_hidden_layers": 48,
    "num_attention_heads": 32,
    "num_key_value_heads": 4,
    "head_dim": 128,
    "intermediate_size": 6144,
    "moe_intermediate_size": 768,
    "num_experts": 128,
    "num_experts_per_tok": 8,
    "decoder_sparse_step": 1,
    "mlp_only_layers": [],
    "vocab_size": 151936,
}
QWEN3_235B_A22B: Config = {
    **QWEN3_30B_A3B,
    "hidden_size": 4096,
    "num_hidden_layers": 94,
    "num_attention_heads": 64,
    "intermediate_size": 12288,
    "moe_intermediate_size": 1536,
}

GEMMA_2B: Config = {
    "model_type": "gemma",
    "hidden_size": 2048,
    "num_hidden_layers": 18,
    "num_attention_heads": 8,
    "num_key_value_heads": 1,
    "intermediate_size": 16384,
    "vocab_size": 256000,
}
GEMMA2_9B: Config = {
    "model_type": "gemma2",
    "hidden_size": 3584,
    "num_hidden_layers": 42,
    "num_attention_heads": 16,
    "num_key_value_heads": 8,
    "head_dim": 256,
    "intermediate_size": 14336,
    "vocab_size": 256000,
}
GEMMA3_1B: Config = {
    "model_type": "gemma3_text",
    "hidden_size": 1152,
    "num_hidden_layers": 26,
    "num_attention_heads": 4,
    "num_key_value_heads": 1,
    "head_dim": 256,
    "intermediate_size": 6912,
    "vocab_size": 262144,
    "sliding_window": 512,
}
PHI3_MINI: Config = {
    "model_type": "phi3",
    "hidden_size": 3072,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 32,
    "intermediate_size": 8192,
    "vocab_size": 32064,
    "sliding_window": 2047,
}
PHI2: Config = {
    "model_type": "phi",
    "hidden_size": 2560,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "intermediate_size": 10240,
    "vocab_size": 51200,
    "tie_word_embeddings": False,
}
STARCODER2_7B: Config = {
    "model_type": "starcoder2",
    "hidden_size": 4608,
    "num_hidden_layers": 32,
    "num_attention_heads": 36,
    "num_key_value_heads": 4,
    "intermediate_size": 18432,
    "vocab_size": 49152,
    "sliding_window": 4096,
}
OLMO2_7B: Config = {
    **llama(4096, 32, 32, 11008, kv_heads=32, vocab=100352),
    "model_type": "olmo2",
}
OLMOE: Config = {
    **llama(2048, 16, 16, 1024, kv_heads=16, vocab=50304),
    "model_type": "olmoe",
    "num_experts": 64,
    "num_experts_per_tok": 8,
}

DEEPSEEK_V2: Config = {
    "model_type": "deepseek_v2",
    "hidden_size": 5120,
    "num_hidden_layers": 60,
    "num_attention_heads": 128,
    "q_lora_rank": 1536,
    "kv_lora_rank": 512,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
    "intermediate_size": 12288,
    "moe_intermediate_size": 1536,
    "n_routed_experts": 160,
    "n_shared_experts": 2,
    "num_experts_per_tok": 6,
    "first_k_dense_replace": 1,
    "vocab_size": 102400,
}
DEEPSEEK_V2_LITE: Config = {
    **DEEPSEEK_V2,
    "hidden_size": 2048,
    "num_hidden_layers": 27,
    "num_attention_heads": 16,
    "q_lora_rank": None,
    "intermediate_size": 10944,
    "moe_intermediate_size": 1408,
    "n_routed_experts": 64,
}
DEEPSEEK_V3: Config = {
    **DEEPSEEK_V2,
    "model_type": "deepseek_v3",
    "hidden_size": 7168,
    "num_hidden_layers": 61,
    "intermediate_size": 18432,
    "moe_intermediate_size": 2048,
    "n_routed_experts": 256,
    "n_shared_experts": 1,
    "num_experts_per_tok": 8,
    "first_k_dense_replace": 3,
    "vocab_size": 129280,
    "num_nextn_predict_layers": 1,
}
KIMI_K2: Config = {
    **DEEPSEEK_V3,
    "model_type": "kimi_k2",
    "num_attention_heads": 64,
    "n_routed_experts": 384,
    "first_k_dense_replace": 1,
    "vocab_size": 163840,
    "num_nextn_predict_layers": None,
}

GPT_OSS_120B: Config = {
    "model_type": "gpt_oss",
    "hidden_size": 2880,
    "num_hidden_layers": 36,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "head_dim": 64,
    "intermediate_size": 2880,
    "num_local_experts": 128,
    "num_experts_per_tok": 4,
    "vocab_size": 201088,
    "sliding_window": 128,
}
GPT_OSS_20B: Config = {**GPT_OSS_120B, "num_hidden_layers": 24, "num_local_experts": 32}

NEMOTRON_H_8B: Config = {
    "model_type": "nemotron_h",
    "hidden_size": 4096,
    "hybrid_override_pattern": "M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M-",
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "mamba_num_heads": 128,
    "mamba_head_dim": 64,
    "ssm_state_size": 128,
    "n_groups": 8,
    "conv_kernel": 4,
    "intermediate_size": 21504,
    "vocab_size": 131072,
}
NEMOTRON3_NANO: Config = {
    **NEMOTRON_H_8B,
    "hidden_size": 2688,
    "hybrid_override_pattern": "MEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEMEM*EMEMEMEME",
    "num_key_value_heads": 2,
    "mamba_num_heads": 64,
    "intermediate_size": 1856,
    "moe_intermediate_size": 1856,
    "moe_shared_expert_intermediate_size": 3712,
    "n_routed_experts": 128,
    "n_shared_experts": 1,
    "num_experts_per_tok": 6,
}
NEMOTRON3_SUPER: Config = {
    **NEMOTRON3_NANO,
    "hidden_size": 4096,
    "hybrid_override_pattern": (
        "MEMEMEM*EMEMEMEM*EMEMEMEM*EMEMEMEMEM*EMEMEMEMEM*EMEMEMEMEM*EMEMEMEMEM*EMEMEMEM*EMEMEMEME"
    ),
    "mamba_num_heads": 128,
    "intermediate_size": 2688,
    "moe_intermediate_size": 2688,
    "moe_shared_expert_intermediate_size": 5376,
    "moe_latent_size": 1024,
    "n_routed_experts": 512,
    "num_experts_per_tok": 22,
    "num_nextn_predict_layers": 1,
    "mtp_hybrid_override_pattern": "*E",
}

JAMBA: Config = {
    **llama(4096, 32, 32, 14336, vocab=65536),
    "model_type": "jamba",
    "attn_layer_offset": 4,
    "attn_layer_period": 8,
    "expert_layer_offset": 1,
    "expert_layer_period": 2,
    "mamba_dt_rank": 256,
    "mamba_d_state": 16,
    "num_experts": 16,
    "num_experts_per_tok": 2,
}
GRANITE4_H_SMALL: Config = {
    **llama(4096, 40, 32, 768, vocab=100352),
    "model_type": "granitemoehybrid",
    "layer_types": ["attention" if i in (5, 15, 25, 35) else "mamba" for i in range(40)],
    "num_local_experts": 72,
    "num_experts_per_tok": 10,
    "shared_intermediate_size": 1536,
    "mamba_n_heads": 128,
    "mamba_d_head": 64,
    "mamba_d_state": 128,
}
BAMBA_9B: Config = {
    **llama(4096, 32, 32, 14336, vocab=128256),
    "model_type": "bamba",
    "attn_layer_indices": [9, 18, 27],
    "mamba_n_heads": 128,
    "mamba_d_head": 64,
    "mamba_d_state": 128,
}
MAMBA_2_8B: Config = {
    "model_type": "mamba",
    "hidden_size": 2560,
    "num_hidden_layers": 64,
    "vocab_size": 50280,
}
MAMBA2_2_7B: Config = {
    "model_type": "mamba2",
    "hidden_size": 2560,
    "num_hidden_layers": 64,
    "vocab_size": 50288,
    "num_heads": 80,
    "head_dim": 64,
    "n_groups": 1,
    "tie_word_embeddings": True,
}
