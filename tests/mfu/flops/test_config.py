"""A config.json that cannot be counted: one error that names the key and what is allowed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_ofu.mfu.flops import ModelConfigError, known_models, model_flops, read_config
from tests.mfu.flops import models
from tests.properties import examples

L8 = models.LLAMA3_8B


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({}, "'model_type' is missing; known: bamba, deepseek_v2"),
        ({"model_type": "rwkv"}, "model_type 'rwkv' is not known; known: bamba"),
        ({"model_type": "x", "text_config": {"model_type": "y"}}, "model_type 'y' is not known"),
        ({"model_type": "llama"}, "'hidden_size' is missing; allowed: a whole number from 1"),
        ({**L8, "hidden_size": 0}, "'hidden_size' is 0"),
        ({**L8, "hidden_size": True}, "'hidden_size' is True"),
        ({**L8, "hidden_size": "4096"}, "'hidden_size' is '4096'"),
        ({**L8, "hidden_size": 1 << 40}, "'hidden_size' is 1099511627776"),
        ({**L8, "hidden_size": 1e300}, "is 1e+300; allowed: a whole number from 1 to 4294967295"),
        ({**L8, "hidden_size": 10**300}, "...0000000000000000000; allowed: a whole number"),
        ({**L8, "num_hidden_layers": 10**6}, "num_hidden_layers is 1000000; allowed: 1 to 10000"),
        ({**L8, "num_attention_heads": 33}, "'head_dim' is missing"),
        ({**L8, "tie_word_embeddings": "yes"}, "'tie_word_embeddings' is 'yes'; allowed: true"),
        ({**models.GPT2, "n_head": 0}, "'n_head' is 0"),
        ({**models.OLMOE, "num_experts_per_tok": 65}, "is 65; allowed: up to 64 experts"),
        ({**models.NEMOTRON_H_8B, "hybrid_override_pattern": "M?"}, "'?' is not a kind of layer"),
        ({**models.NEMOTRON_H_8B, "hybrid_override_pattern": ""}, "is missing; allowed: one of"),
        ({**models.GRANITE4_H_SMALL, "layer_types": ["mamba"]}, "has 1 entries; allowed: one a"),
        (
            {**models.BAMBA_9B, "mamba_n_heads": "auto", "hidden_size": 33, "head_dim": 8},
            "the Mamba width 66 has no even share by 64",
        ),
        ({**models.MAMBA2_2_7B, "num_heads": None, "head_dim": "auto"}, "no even share by None"),
        ({**models.GEMMA2_9B, "layer_types": "full"}, "'layer_types' is 'full'; allowed: a list"),
    ],
)
def test_what_is_wrong_is_named(config: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelConfigError) as caught:
        model_flops(config, 4096)
    assert message in str(caught.value)


@pytest.mark.parametrize("seq_len", [0, -1, 0.5, float("nan"), float("inf"), 1e12])
def test_impossible_sequence_lengths_are_refused(seq_len: float) -> None:
    with pytest.raises(ModelConfigError, match="allowed: 1 to 1000000000 tokens"):
        model_flops(L8, seq_len)


def test_prediction_steps_of_a_model_without_them_are_refused() -> None:
    with pytest.raises(ModelConfigError, match="no multi-token prediction"):
        model_flops(L8, 4096, mtp_layers=1)


def test_absent_keys_have_the_defaults_of_their_type() -> None:
    short = {k: v for k, v in models.GEMMA2_9B.items() if k != "head_dim"}
    assert model_flops(short, 512).params_total == 9_241_705_984
    no_groups = {k: v for k, v in models.LLAMA2_7B.items() if k != "num_key_value_heads"}
    assert model_flops(no_groups, 512).params_total == 6_738_415_616


def test_mamba_heads_follow_from_the_expansion() -> None:
    auto = {**models.GRANITE4_H_SMALL, "mamba_n_heads": None, "mamba_expand": 2}
    assert model_flops(auto, 512) == model_flops(models.GRANITE4_H_SMALL, 512)
    by_heads = {**models.GRANITE4_H_SMALL, "mamba_d_head": "auto", "mamba_expand": 2}
    assert model_flops(by_heads, 512) == model_flops(models.GRANITE4_H_SMALL, 512)


def test_jamba_has_its_layers_where_transformers_puts_them_by_default() -> None:
    written = ("attn_layer_offset", "attn_layer_period", "expert_layer_offset")
    short = {key: value for key, value in models.JAMBA.items() if key not in written}
    assert model_flops(short, 512) == model_flops(models.JAMBA, 512)


def test_no_prediction_steps_in_a_config_need_no_note() -> None:
    config = {**models.DEEPSEEK_V3, "num_nextn_predict_layers": 0}
    assert model_flops(config, 512).notes == ()


def test_layers_by_words_are_those_of_the_pattern() -> None:
    words = {"M": "mamba", "*": "attention", "-": "mlp"}
    kinds = [words[letter] for letter in models.NEMOTRON_H_8B["hybrid_override_pattern"]]
    listed = {**models.NEMOTRON_H_8B, "layers_block_type": kinds, "hybrid_override_pattern": None}
    assert model_flops(listed, 512) == model_flops(models.NEMOTRON_H_8B, 512)


def test_every_known_type_is_in_the_tests() -> None:
    tried = {
        c["model_type"] for c in vars(models).values() if isinstance(c, dict) and "model_type" in c
    }
    # Alike to one that is: glm4_moe to qwen3_moe with shared experts, granite and nemotron to
    # llama, granitemoe to mixtral, olmo to llama without norm weights.
    assert set(known_models()) - tried == {"glm4_moe", "granite", "granitemoe", "nemotron", "olmo"}


@pytest.mark.parametrize("kind", ["granite", "nemotron", "olmo"])
def test_dense_relatives_of_llama_are_counted(kind: str) -> None:
    flops = model_flops({**L8, "model_type": kind}, 4096)
    assert 0.75e10 < flops.params_total + (0 if kind != "nemotron" else 2e9) < 1.1e10


@pytest.mark.parametrize("kind", ["granitemoe", "glm4_moe"])
def test_sparse_relatives_are_counted(kind: str) -> None:
    config = {**models.QWEN3_30B_A3B, "model_type": kind, "n_shared_experts": 1}
    flops = model_flops(config, 4096)
    assert flops.params_total > 30_532_000_000
    assert flops.params_active > 3_041_656_832


def test_a_file_or_a_models_folder_is_read(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(L8), "utf-8")
    assert read_config(tmp_path) == read_config(tmp_path / "config.json") == L8


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", "not a JSON object"),
        (b"[]", "not a JSON object: expected a mapping, got a list$"),
        (b"\xff\xfe", "not a JSON object"),
        (b"[" * 100_000, "not a JSON object|nested too deeply"),
        (b" " * (4 * 1024 * 1024 + 1), "larger than 4 MiB"),
    ],
)
def test_files_that_are_no_config_are_refused(tmp_path: Path, text: bytes, message: str) -> None:
    file = tmp_path / "config.json"
    file.write_bytes(text)
    with pytest.raises(ModelConfigError, match=message):
        read_config(file)
    with pytest.raises(ModelConfigError, match="No such file"):
        read_config(tmp_path / "absent.json")


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-10, 10**7) | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=6,
)


@examples(3)
@given(
    st.sampled_from(
        [c for c in vars(models).values() if isinstance(c, dict) and "model_type" in c]
    ),
    st.data(),
)
def test_any_value_gives_a_count_or_one_error(config: dict[str, Any], data: st.DataObject) -> None:
    key = data.draw(st.sampled_from(sorted(config)))
    try:
        flops = model_flops({**config, key: data.draw(_JSON)}, 4096)
    except ModelConfigError:
        return
    assert flops.training > 0
