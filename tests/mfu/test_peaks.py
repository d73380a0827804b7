"""From FLOP/s to MFU."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_ofu.catalog.skus import Sku, load_skus
from otel_ofu.mfu import mfu
from otel_ofu.mfu.flops import model_flops
from tests.mfu.flops import models


def h100() -> Sku:
    sku = load_skus().match("NVIDIA H100 80GB HBM3")
    assert sku is not None
    return sku


def test_tokens_and_flops_give_the_same_as_tflops() -> None:
    # Megatron Bridge 25.11, H100: Llama 3.1 405B in FP8 at 292 tokens/s and 737 TFLOP/s.
    flops, peak = model_flops(models.LLAMA3_405B, 8192), h100().peak_flops("fp8")
    assert peak is not None
    by_tokens = mfu(292, flops.training, peak)
    assert by_tokens == pytest.approx(737 / 1979, rel=0.01)


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
