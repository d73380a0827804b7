"""Dating a change of level."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_ofu.diagnose.onset import find_shift


def level(*parts: tuple[float, int], noise: float = 0.0, seed: int = 0) -> np.ndarray:
    series = np.concatenate([np.full(count, value) for value, count in parts])
    return series * (1 + noise * np.random.default_rng(seed).standard_normal(len(series)))


def test_a_fall_is_dated_to_its_row() -> None:
    onset = find_shift(level((0.44, 40), (0.17, 8)))
    assert onset is not None
    assert (onset.row, onset.before, onset.after) == (40, 0.44, 0.17)


@given(st.integers(0, 200), st.integers(10, 40), st.sampled_from([0.02, 0.04]))
def test_noise_moves_the_date_by_a_row_at_most(seed: int, at: int, noise: float) -> None:
    onset = find_shift(level((0.44, at), (0.17, 60 - at), noise=noise, seed=seed))
    assert onset is not None
    assert abs(onset.row - at) <= 1


@given(st.integers(0, 200))
def test_a_steady_level_has_no_onset(seed: int) -> None:
    assert find_shift(level((0.44, 100), noise=0.04, seed=seed)) is None


def test_a_dip_that_is_over_soon_is_none() -> None:
    assert find_shift(level((0.44, 40), (0.0, 2), (0.44, 40))) is None


def test_missing_rows_are_left_out() -> None:
    series = level((0.44, 40), (0.17, 20))
    series[::3] = np.nan
    onset = find_shift(series)
    assert onset is not None
    assert onset.row == pytest.approx(40, abs=1)


@pytest.mark.parametrize("series", [np.array([]), np.full(60, np.nan), np.zeros(60)])
def test_nothing_to_see_is_no_onset(series: np.ndarray) -> None:
    assert find_shift(series) is None
