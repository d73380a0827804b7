"""What a kernel of whole tiles executes of a matrix product, and the OFU that it shows."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_ofu.derive.gemm import MOST, GemmBreakdown

sizes = st.integers(1, 1 << 16)
shapes = st.tuples(sizes, sizes, sizes)


def test_whole_tiles_execute_what_is_required() -> None:
    gemm = GemmBreakdown((4096, 4096, 4096), (128, 256, 64))
    assert gemm.executed_flops == gemm.required_flops == 2 * 4096**3


@given(shapes, shapes)
def test_the_ofu_over_the_correction_is_what_the_product_amounts_to(
    shape: tuple[int, int, int], tile: tuple[int, int, int]
) -> None:
    gemm = GemmBreakdown(shape, tile)
    needed = gemm.required_flops / (1e15 * 2e-3)
    assert gemm.ofu(1e15, 2e-3) / gemm.quantization == pytest.approx(needed)


@pytest.mark.parametrize("bad", [(0, 1, 1), (1, -1, 1), (1, 1, MOST + 1)])
def test_sizes_that_cannot_be_are_refused(bad: tuple[int, int, int]) -> None:
    with pytest.raises(ValueError, match="each must be from 1 to"):
        GemmBreakdown(bad, (1, 1, 1))
    with pytest.raises(ValueError, match="tile"):
        GemmBreakdown((1, 1, 1), bad)
