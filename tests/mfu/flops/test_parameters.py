"""Parameter counts against published ones: a wrong or forgotten matrix shows here."""

from __future__ import annotations

from typing import Any

import pytest

from otel_ofu.mfu.flops import model_flops
from tests.mfu.flops import models

# Element counts of the published checkpoints (safetensors headers, model cards).
EXACT = [
    (models.LLAMA2_7B, 6_738_415_616),
    (models.LLAMA3_8B, 8_030_261_248),
    (models.LLAMA3_70B, 70_553_706_496),
    (models.LLAMA3_405B, 405_853_388_800),
    (models.GPT2, 124_439_808),
    (models.GPT2_XL, 1_557_611_200),
    # The model card of GPT-NeoX-20B gives this number.
    (models.GPT_NEOX_20B, 20_554_567_680),
    (models.MISTRAL_7B, 7_241_732_096),
    (models.MIXTRAL_8X7B, 46_702_792_704),
    (models.QWEN25_7B, 7_615_616_512),
    (models.QWEN3_8B, 8_190_735_360),
    (models.QWEN15_MOE, 14_315_784_192),
    (models.QWEN3_30B_A3B, 30_532_122_624),
    (models.QWEN3_235B_A22B, 235_093_634_560),
    (models.GEMMA_2B, 2_506_172_416),
    (models.GEMMA2_9B, 9_241_705_984),
    (models.GEMMA3_1B, 999_885_952),
    (models.PHI2, 2_779_683_840),
    (models.PHI3_MINI, 3_821_079_552),
    (models.STARCODER2_7B, 7_173_923_840),
    (models.OLMO2_7B, 7_298_617_344),
    (models.OLMOE, 6_919_161_856),
    (models.DEEPSEEK_V2, 235_741_434_880),
    (models.DEEPSEEK_V2_LITE, 15_706_484_224),
    # Without the multi-token-prediction module that the checkpoint holds besides.
    (models.DEEPSEEK_V3, 671_026_419_200),
    (models.GPT_OSS_20B, 20_914_757_184),
    (models.GPT_OSS_120B, 116_829_156_672),
    (models.JAMBA, 51_570_323_328),
    (models.MAMBA_2_8B, 2_768_345_600),
    (models.MAMBA2_2_7B, 2_702_599_680),
]

# In 1e9, as reports and model cards round them: Nemotron-H arXiv:2504.03624; Nemotron 3 Nano
# arXiv:2512.20848 (31.6B); Nemotron 3 Super model card (120.6B); Granite 4.0 and Bamba model cards;
# Kimi K2 arXiv:2507.20534 (1.04T with what the report adds to it).
ROUNDED = [
    (models.NEMOTRON_H_8B, 8.1),
    (models.NEMOTRON3_NANO, 31.6),
    (models.NEMOTRON3_SUPER, 120.6),
    (models.GRANITE4_H_SMALL, 32.2),
    (models.BAMBA_9B, 9.78),
    (models.KIMI_K2, 1026.4),
]

# Parameters met by each token, in 1e9, and whether the published figure counts the embedding.
ACTIVE = [
    (models.MIXTRAL_8X7B, 12.9, "with"),  # arXiv:2401.04088, table 2 ("13B") and the release
    (models.QWEN3_30B_A3B, 3.35, "with"),  # arXiv:2505.09388: 3.3B
    (models.QWEN3_235B_A22B, 22.2, "with"),  # arXiv:2505.09388: 22B
    (models.QWEN15_MOE, 2.69, "with"),  # its release: 2.7B
    (models.DEEPSEEK_V2, 21.4, "with"),  # arXiv:2405.04434: 21B
    (models.DEEPSEEK_V3, 37.55, "with"),  # arXiv:2412.19437: 37B
    # gpt-oss model card, arXiv:2508.10925, table 1: unembedding counted, embedding not.
    (models.GPT_OSS_120B, 5.13, "without"),
    (models.GPT_OSS_20B, 3.61, "without"),
    (models.NEMOTRON3_NANO, 3.2, "without"),  # arXiv:2512.20848: 3.2B, 3.6B with embeddings
    (models.NEMOTRON3_NANO, 3.58, "with"),
    (models.NEMOTRON3_SUPER, 12.2, "without"),  # model card: 12B
    (models.JAMBA, 12.1, "with"),  # arXiv:2403.19887: 12B
    (models.GRANITE4_H_SMALL, 8.8, "without"),  # its model card: 9B
]


def name(value: object) -> str:
    return str(value.get("model_type")) if isinstance(value, dict) else str(value)


@pytest.mark.parametrize(("config", "published"), EXACT, ids=name)
def test_total_equals_the_published_checkpoint(config: dict[str, Any], published: int) -> None:
    assert model_flops(config, 4096).params_total == published


@pytest.mark.parametrize(("config", "billions"), ROUNDED, ids=name)
def test_total_rounds_to_the_published_figure(config: dict[str, Any], billions: float) -> None:
    assert model_flops(config, 4096).params_total / 1e9 == pytest.approx(billions, rel=5e-3)


@pytest.mark.parametrize(("config", "billions", "embedding"), ACTIVE, ids=name)
def test_active_parameters_round_to_the_published_figure(
    config: dict[str, Any], billions: float, embedding: str
) -> None:
    active = model_flops(config, 4096).params_active
    looked_up = config["vocab_size"] * config["hidden_size"] if embedding == "with" else 0
    assert (active + looked_up) / 1e9 == pytest.approx(billions, rel=1e-2)
