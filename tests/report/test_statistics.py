from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_ofu.report.result import mean_absolute_error, pearson

NUMBERS = st.lists(st.tuples(st.floats(0, 2), st.floats(0, 2)), min_size=3, max_size=50)


@given(NUMBERS)
def test_r_is_that_of_numpy_where_both_sides_vary(pairs: list[tuple[float, float]]) -> None:
    x, y = zip(*pairs, strict=True)
    r = pearson(x, y)
    if r is None:
        return
    assert -1 <= r <= 1
    if np.std(x) > 1e-3 and np.std(y) > 1e-3:
        assert r == pytest.approx(float(np.corrcoef(x, y)[0, 1]), abs=1e-9)


def test_r_of_known_pairs() -> None:
    assert pearson([1, 2, 3], [2, 4, 6]) == 1.0
    assert pearson([1, 2, 3, 4], [1, 3, 2, 4]) == pytest.approx(0.8)


@pytest.mark.parametrize(("x", "y"), [([], []), ([1, 2], [1, 2]), ([1, 1, 1], [1, 2, 3])])
def test_nothing_is_said_where_nothing_can_be(x: list[float], y: list[float]) -> None:
    assert pearson(x, y) is None


def test_the_mean_absolute_error() -> None:
    assert mean_absolute_error([], []) is None
    assert math.isclose(mean_absolute_error([0.4, 0.2], [0.5, 0.1]) or 0, 0.1)
