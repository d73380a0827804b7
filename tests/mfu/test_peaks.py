"""From FLOP/s to MFU, and the peak that a framework used."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_ofu.catalog.skus import Sku, load_skus
from otel_ofu.mfu import mfu, mfu_from_tflops, reported_peak, same_peak
from otel_ofu.mfu.flops import model_flops
from tests.mfu.flops import models


def h100() -> Sku:
    sku = load_skus().match("NVIDIA H100 80GB HBM3")
    assert sku is not None
    return sku


def test_llama3_405b_as_its_paper_tells_it() -> None:
    # The Llama 3 Herd of Models, arXiv:2407.21783, table 4: 430 TFLOP/s a GPU, 43 % in BF16.
    found = mfu_from_tflops(430.0, h100(), "bf16")
    assert found == pytest.approx(0.43, abs=0.006)


def test_tokens_and_flops_give_the_same_as_tflops() -> None:
    # Megatron Bridge 25.11, H100: Llama 3.1 405B in FP8 at 292 tokens/s and 737 TFLOP/s.
    flops, peak = model_flops(models.LLAMA3_405B, 8192), h100().peak_flops("fp8")
    assert peak is not None
    by_tokens = mfu(292, flops.training, peak)
    assert by_tokens == pytest.approx(mfu_from_tflops(737.0, h100(), "fp8"), rel=0.002)
    assert by_tokens == pytest.approx(737 / 1979, rel=0.01)


def test_a_precision_without_a_peak_gives_nothing() -> None:
    assert mfu_from_tflops(400.0, h100(), "fp4") is None


def test_the_peak_of_the_framework_is_told_apart_from_ours() -> None:
    ours = h100().peak_flops("bf16")
    assert ours is not None
    used = reported_peak(412.55, 0.4171)
    assert used is not None
    assert same_peak(used, ours)
    sparse = reported_peak(412.55, 0.4171 / 2)
    assert sparse is not None
    assert not same_peak(sparse, ours)
    assert sparse / ours == pytest.approx(2.0, rel=0.01)


@pytest.mark.parametrize(("tflops", "ratio"), [(None, 0.4), (400.0, None), (0.0, 0.4), (400.0, 0)])
def test_without_both_figures_there_is_no_peak(tflops: float | None, ratio: float | None) -> None:
    assert reported_peak(tflops, ratio) is None


@pytest.mark.parametrize(
    "bad",
    [(-1, 1, 1), (1, -1, 1), (1, 1, 0), (1, 1, -1), (float("nan"), 1, 1), (1, 1, float("inf"))],
)
def test_impossible_figures_are_refused(bad: tuple[float, float, float]) -> None:
    with pytest.raises(ValueError, match="allowed: "):
        mfu(*bad)


@given(st.floats(0, 1e6), st.floats(0, 1e15), st.floats(1e9, 1e17))
def test_mfu_is_linear_and_is_never_cut(tokens: float, flops: float, peak: float) -> None:
    assert mfu(tokens, flops, peak) == pytest.approx(tokens * flops / peak)
    assert mfu(2 * tokens, flops, peak) == pytest.approx(2 * mfu(tokens, flops, peak))
