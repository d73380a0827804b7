from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_ofu.derive import formulas

ratios = st.floats(0, 1)
clocks_hz = st.floats(0, 1e10)
references_hz = st.floats(1e6, 1e10)
sizes = st.integers(1, 100_000)
shapes = st.tuples(sizes, sizes, sizes)


def test_the_worked_value_of_an_emulated_gpu() -> None:
    assert formulas.ofu(0.4375, 1410e6, 1980e6) == pytest.approx(0.311553, abs=1e-6)


@given(ratios, clocks_hz, references_hz, st.floats(0, 1))
def test_ofu_is_linear_in_the_clock(
    tensor: float, clock_hz: float, reference_hz: float, part: float
) -> None:
    whole = formulas.ofu(tensor, clock_hz, reference_hz)
    scaled = formulas.ofu(tensor, clock_hz * part, reference_hz)
    assert scaled == pytest.approx(whole * part, rel=1e-9, abs=1e-300)


@given(ratios, ratios, clocks_hz, clocks_hz, references_hz)
def test_ofu_grows_with_each_input(
    tensor: float, other: float, clock_hz: float, other_hz: float, reference_hz: float
) -> None:
    low = formulas.ofu(min(tensor, other), min(clock_hz, other_hz), reference_hz)
    high = formulas.ofu(max(tensor, other), max(clock_hz, other_hz), reference_hz)
    assert low <= high
    assert math.isfinite(high)


@given(ratios, clocks_hz, st.floats(0.1, 1000), st.sampled_from([1, 132, 528]))
def test_cycle_counters_and_samples_of_a_steady_clock_agree(
    tensor: float, clock_hz: float, elapsed_s: float, scale: int
) -> None:
    elapsed = clock_hz * elapsed_s * scale
    by_cycles = formulas.ofu_from_cycles(tensor * elapsed, scale, 1.83e9, elapsed_s)
    assert by_cycles == pytest.approx(formulas.ofu(tensor, clock_hz, 1.83e9), rel=1e-9)
    assert formulas.mean_clock_hz(elapsed, scale, elapsed_s) == pytest.approx(clock_hz)


@pytest.mark.parametrize(
    ("size", "overhead"), [(4000, 0.049), (4097, 0.095), (1025, 0.40), (300, 1.18), (4096, 0)]
)
def test_padding_of_a_square_gemm_to_128x256_tiles(size: int, overhead: float) -> None:
    factor = formulas.tile_quantization((size, size, 4096), (128, 256, 64))
    assert factor - 1 == pytest.approx(overhead, abs=0.005)


@given(shapes, shapes)
def test_a_tile_never_saves_work_and_whole_tiles_waste_none(
    shape: formulas.Shape, tile: formulas.Shape
) -> None:
    assert formulas.tile_quantization(shape, tile) >= 1
    m, n, k = (a * b for a, b in zip(shape, tile, strict=True))
    assert formulas.tile_quantization((m, n, k), tile) == 1


@pytest.mark.parametrize(("shape", "tile"), [((0, 1, 1), (1, 1, 1)), ((1, 1, 1), (8, -8, 8))])
def test_a_shape_without_size_is_refused(shape: formulas.Shape, tile: formulas.Shape) -> None:
    with pytest.raises(ValueError, match="above 0"):
        formulas.tile_quantization(shape, tile)
