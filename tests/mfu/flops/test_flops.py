"""FLOPs for a token against published figures, and the laws that they obey."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_ofu.mfu.flops import model_flops, packed_length
from tests.mfu.flops import models

# Tokens/s and model TFLOP/s on one GPU, of the same run: their ratio is FLOPs for a token.
# Source: Megatron Bridge, performance summary of release 25.11 (docs/performance-summary.md).
MEGATRON_BRIDGE = [
    (models.LLAMA3_8B, 8192, 14451, 744),
    (models.LLAMA3_70B, 8192, 1602, 719),
    (models.LLAMA3_405B, 8192, 292, 737),
    (models.DEEPSEEK_V3, 4096, 3848, 961),
    (models.QWEN3_30B_A3B, 4096, 28934, 666),
    (models.QWEN3_235B_A22B, 4096, 6131, 907),
]
# Source: NeMo AutoModel, performance summaries of October 2025 and February 2026, DGX H100.
NEMO_AUTOMODEL = [
    (models.DEEPSEEK_V3, 4096, 1002, 250),
    (models.KIMI_K2, 4096, 924, 189),
    (models.QWEN3_30B_A3B, 4096, 12040, 277),
    (models.NEMOTRON3_SUPER, 4096, 4497, 334),
]
# Source: "Insights into DeepSeek-V3", arXiv:2505.09343, table 2: training GFLOPs for a token at
# 4,096 tokens.
DEEPSEEK_INSIGHTS = [
    (models.DEEPSEEK_V2, 155e9),
    (models.DEEPSEEK_V3, 250e9),
    (models.LLAMA3_405B, 2448e9),
]


@pytest.mark.parametrize(
    ("config", "seq_len", "tokens_per_s", "tflops"), MEGATRON_BRIDGE + NEMO_AUTOMODEL
)
def test_training_flops_are_those_of_published_throughput_tables(
    config: dict[str, Any], seq_len: int, tokens_per_s: float, tflops: float
) -> None:
    # Three digits are printed, and recipes differ in whether scans and routers are counted.
    published = tflops * 1e12 / tokens_per_s
    assert model_flops(config, seq_len).training == pytest.approx(published, rel=0.012)


def test_hybrid_is_near_the_published_table() -> None:
    # NeMo AutoModel as above: 328 TFLOP/s at 16,789 tokens/s; its count leaves the scans out.
    published = 328e12 / 16789
    assert model_flops(models.NEMOTRON3_NANO, 4096).training == pytest.approx(published, rel=0.04)


@pytest.mark.parametrize(("config", "published"), DEEPSEEK_INSIGHTS)
def test_training_flops_are_those_of_a_published_comparison(
    config: dict[str, Any], published: float
) -> None:
    assert model_flops(config, 4096).training == pytest.approx(published, rel=0.012)


def test_forward_pass_equals_nanogpts_count_to_the_last_flop() -> None:
    # Source: nanoGPT, transformer_sizing.ipynb: forward 291,648,307,200 FLOPs of 1,024 tokens.
    flops = model_flops(models.GPT2, 1024, masking="full")
    assert flops.forward * 1024 == 291_648_307_200
    assert flops.training * 1024 == 874_944_921_600


def test_forward_is_a_third_of_training_and_the_sum_of_its_parts() -> None:
    flops = model_flops(models.JAMBA, 4096)
    assert flops.training == 3 * flops.forward
    assert flops.forward == pytest.approx(sum(p.flops for p in flops.parts))
    assert {p.name for p in flops.parts} == {"mamba", "attention", "mlp", "experts", "head"}


def test_grouped_queries_change_projections_and_not_scores() -> None:
    many = model_flops(models.llama(4096, 32, 32, 14336, kv_heads=32), 4096)
    few = model_flops(models.LLAMA3_8B, 4096)
    attention = [next(p for p in f.parts if p.name == "attention") for f in (many, few)]
    assert attention[0].extra_flops == attention[1].extra_flops
    assert attention[0].matrix_flops - attention[1].matrix_flops == 2 * 32 * 2 * 4096 * 24 * 128


def test_tied_models_pay_for_the_head_all_the_same() -> None:
    untied = {**models.LLAMA3_8B, "tie_word_embeddings": False}
    tied = {**models.LLAMA3_8B, "tie_word_embeddings": True}
    assert model_flops(tied, 512).forward == model_flops(untied, 512).forward
    assert model_flops(tied, 512).params_total == 8_030_261_248 - 128256 * 4096


def test_a_window_longer_than_the_sequence_changes_nothing() -> None:
    open_ = {**models.MISTRAL_7B, "sliding_window": None}
    assert model_flops(models.MISTRAL_7B, 4096) == model_flops(open_, 4096)
    assert model_flops(models.MISTRAL_7B, 8192).forward < model_flops(open_, 8192).forward


def test_a_window_bounds_what_full_attention_sees() -> None:
    flops = model_flops(models.MISTRAL_7B, 32768, masking="full")
    attention = next(p for p in flops.parts if p.name == "attention")
    assert attention.extra_flops == 32 * 4 * 32 * 128 * 4096


@pytest.mark.parametrize(
    ("config", "windowed"),
    [
        (models.GEMMA2_9B, 21),
        (models.GPT_OSS_20B, 12),
        (models.GEMMA3_1B, 22),
        ({**models.QWEN25_7B, "use_sliding_window": True, "max_window_layers": 20}, 8),
        ({**models.GEMMA2_9B, "layer_types": ["full_attention"] * 42}, 0),
    ],
)
def test_windows_are_on_the_layers_that_have_them(config: dict[str, Any], windowed: int) -> None:
    far = 10_000_000
    layers = config["num_hidden_layers"]
    small, none = {**config, "sliding_window": 1}, {**config, "layer_types": ["attention"] * layers}
    scores = [
        next(p for p in model_flops(c, far).parts if p.name == "attention").extra_flops
        for c in (small, none)
    ]
    assert round((1 - scores[0] / scores[1]) * layers) == windowed


def test_multi_token_prediction_is_counted_when_asked_for_and_told_when_not() -> None:
    without = model_flops(models.DEEPSEEK_V3, 4096)
    with_one = model_flops(models.DEEPSEEK_V3, 4096, mtp_layers=1)
    # Megatron Bridge 25.11, DGX-B200, whose recipe has the step: 557 TFLOP/s at 2,139 tokens/s.
    assert with_one.training == pytest.approx(557e12 / 2139, rel=0.003)
    assert any("multi-token" in note for note in without.notes)
    assert with_one.notes == ()
    # The pattern of Nemotron 3 says what a step repeats: attention and experts, not the last layer.
    assert model_flops(models.NEMOTRON3_SUPER, 4096, mtp_layers=2).parts[-1].name == "mtp"


def test_models_with_pictures_are_counted_by_their_language_model() -> None:
    wrapped = {"model_type": "gemma3", "text_config": models.GEMMA3_1B, "vision_config": {}}
    flops = model_flops(wrapped, 2048)
    assert flops.params_total == 999_885_952
    assert flops.notes == ("only the language model of 'gemma3' is counted",)


def test_packed_documents_count_as_their_own_length() -> None:
    assert packed_length([4096]) == 4096
    assert packed_length([1024] * 4) == 1024
    assert packed_length([3000, 1000]) == pytest.approx(2500)
    for bad in ([], [0], [5, -1]):
        with pytest.raises(ValueError, match="at least one"):
            packed_length(bad)


@given(st.integers(1, 1 << 20), st.integers(1, 1 << 20))
def test_longer_sequences_never_cost_less_for_a_token(one: int, other: int) -> None:
    short, long = sorted((one, other))
    for config in (models.GEMMA2_9B, models.DEEPSEEK_V2_LITE, models.MAMBA_2_8B):
        assert model_flops(config, short).forward <= model_flops(config, long).forward


@given(st.integers(1, 1 << 20))
def test_causal_attention_is_half_of_full_without_windows(seq_len: int) -> None:
    causal = model_flops(models.LLAMA3_8B, seq_len).parts[0].extra_flops
    full = model_flops(models.LLAMA3_8B, seq_len, masking="full").parts[0].extra_flops
    assert full == pytest.approx(2 * causal)
