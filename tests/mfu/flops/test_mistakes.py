"""Wrong ways to count, and the ratio by which each shows."""

from __future__ import annotations

from typing import Any

import pytest

from otel_ofu.mfu.flops import mistakes, model_flops
from tests.mfu.flops import models


def ratios(config: dict[str, Any], seq_len: float = 4096) -> dict[str, float]:
    return {mistake.id: mistake.ratio for mistake in mistakes(config, seq_len)}


def test_experts_at_full_width_give_the_ratio_of_the_papers_first_case() -> None:
    # A mixture of experts in a latent space: MFU 54.27 % against OFU 25.58 %, because the counter
    # took the experts at the hidden size. Source: the OFU paper, arXiv:2605.20799.
    found = ratios(models.NEMOTRON3_SUPER, 8192)
    assert found["wide_experts"] == pytest.approx(54.27 / 25.58, rel=0.01)


def test_a_public_table_left_out_gates_and_windows() -> None:
    # Megatron Bridge 25.11, H100: GPT OSS 120B at 5,630 tokens/s and 153 TFLOP/s with 4,096 tokens.
    published = 153e12 / 5630
    truth = model_flops(models.GPT_OSS_120B, 4096).training
    found = {m.id: m.flops for m in mistakes(models.GPT_OSS_120B, 4096)}
    both = found["no_gate"] + found["no_window"] - truth
    assert both == pytest.approx(published, rel=0.005)
    assert published / truth == pytest.approx(0.83, abs=0.01)


def test_total_parameters_of_a_sparse_model_give_several_times_the_truth() -> None:
    assert ratios(models.QWEN3_30B_A3B)["total_parameters"] == pytest.approx(7.94, abs=0.01)
    assert ratios(models.MIXTRAL_8X7B)["all_experts"] == pytest.approx(3.55, abs=0.01)


def test_recomputation_is_four_thirds_and_macs_are_half() -> None:
    for config in (models.LLAMA3_8B, models.JAMBA, models.DEEPSEEK_V3):
        assert ratios(config)["recompute"] == pytest.approx(4 / 3)
        assert ratios(config)["macs"] == pytest.approx(1 / 2)


def test_full_attention_is_twelve_percent_at_eight_thousand_tokens() -> None:
    # Llama-3-8B at 8k tokens: scores are 14 % of the matrices with causal masking.
    found = ratios(models.LLAMA3_8B, 8192)
    assert found["full_attention"] == pytest.approx(1.125, abs=0.001)
    assert found["no_attention"] == pytest.approx(0.875, abs=0.001)


def test_the_other_masking_is_the_mistake() -> None:
    found = {m.id: m.ratio for m in mistakes(models.LLAMA3_8B, 8192, masking="full")}
    assert "full_attention" not in found
    assert found["causal_attention"] == pytest.approx(1 / 1.125, abs=0.001)


def test_mamba_counted_as_attention_grows_with_the_sequence() -> None:
    short, long = (ratios(models.NEMOTRON_H_8B, t)["mamba_as_attention"] for t in (2048, 262144))
    assert short < 1 < long


def test_mistakes_that_cannot_be_made_with_a_model_are_not_listed() -> None:
    dense = ratios(models.LLAMA3_8B)
    assert not dense.keys() & {
        "all_experts",
        "wide_experts",
        "no_shared_experts",
        "no_window",
        "mamba_as_attention",
    }
    assert "no_gate" not in ratios(models.GPT2)
    assert "mamba_as_attention" not in ratios(models.MAMBA_2_8B)


def test_the_largest_deviation_comes_first() -> None:
    found = mistakes(models.DEEPSEEK_V3, 4096)
    deviations = [max(m.ratio, 1 / m.ratio) for m in found]
    assert deviations == sorted(deviations, reverse=True)
    assert found[0].flops == pytest.approx(
        found[0].ratio * model_flops(models.DEEPSEEK_V3, 4096).training
    )
