from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pytest
from numpy.typing import NDArray

from otel_ofu.rules.functions import GROUP_FUNCTIONS
from otel_ofu.rules.functions.groups import GroupedValues
from otel_ofu.rules.numpy.samples import Wanted, over_window
from otel_ofu.store import SampleBlock

Samples = NDArray[np.float32]
ROWS = 90
# More than one chunk of columns, and a last one that is not full.
COLUMNS = 3_210


def samples(rows: int = ROWS, columns: int = COLUMNS, missing: float = 0.3) -> Samples:
    rng = np.random.default_rng(5)
    values = rng.normal(0.0, 3.0, (rows, columns)).astype(np.float32)
    values[rng.random(values.shape) < missing] = np.nan
    values[:, 0] = np.nan
    values[:, 1] = np.nan
    values[rows // 2, 1] = 7.0
    return values


def block(values: Samples, *, split: int = 0) -> SampleBlock:
    parts = (values[:split], values[split:]) if split else (values,)
    return SampleBlock(parts, (), 10.0, float(len(values)), values.shape[1])


PLAIN: Mapping[Wanted, Callable[[Samples], NDArray[np.float64]]] = {
    ("avg", None): lambda x: np.nanmean(x, axis=0),
    ("min", None): lambda x: np.nanmin(x, axis=0),
    ("max", None): lambda x: np.nanmax(x, axis=0),
    ("sum", None): lambda x: np.nansum(x, axis=0),
    ("increase", None): lambda x: np.nansum(x, axis=0),
    ("stddev", None): lambda x: np.nanstd(x, axis=0),
    ("quantile", 0.0): lambda x: np.nanquantile(x, 0.0, axis=0),
    ("quantile", 0.37): lambda x: np.nanquantile(x, 0.37, axis=0),
    ("quantile", 1.0): lambda x: np.nanquantile(x, 1.0, axis=0),
    ("last", None): lambda x: np.array([c[~np.isnan(c)][-1] for c in x.T]),
    ("count", None): lambda x: np.sum(~np.isnan(x), axis=0).astype(float),
}


@pytest.mark.parametrize("split", [0, 1, 40])
def test_functions_over_many_columns_are_those_of_numpy(split: int) -> None:
    values = samples()
    results, counts = over_window(block(values, split=split), PLAIN)
    np.testing.assert_array_equal(counts, np.sum(~np.isnan(values), axis=0))
    for name, plain in PLAIN.items():
        np.testing.assert_allclose(results[name][1:], plain(values[:, 1:]), rtol=1e-4, atol=1e-4)
        assert np.isnan(results[name][0]) or name[0] == "count"


def test_a_long_window_keeps_its_digits() -> None:
    values = np.full((20_000, 3), 0.1, np.float32)
    results, counts = over_window(block(values), [("sum", None), ("avg", None)])
    assert counts.tolist() == [20_000] * 3
    np.testing.assert_allclose(results["sum", None], 2_000.0, rtol=1e-6)
    np.testing.assert_allclose(results["avg", None], 0.1, rtol=1e-6)


def test_a_small_spread_around_a_large_mean_is_not_lost() -> None:
    values = np.full((30, 1), 1.6e9, np.float32)
    values[::2] += 1e6
    results, _ = over_window(block(values), [("stddev", None)])
    assert results["stddev", None][0] == pytest.approx(5e5, rel=1e-3)


@pytest.mark.parametrize("split", [0, 40])
def test_equal_samples_have_no_deviation_however_large_they_are(split: int) -> None:
    values = np.full((300, 4), 1.837e9, np.float32)
    values[7:70, 1] = np.nan
    values[-1, 2] = np.nan
    values[:, 3] = np.nan
    results, _ = over_window(block(values, split=split), [("stddev", None)])
    np.testing.assert_array_equal(results["stddev", None], [0, 0, 0, np.nan])


@pytest.mark.parametrize("shape", [(90, 1), (1, 90), (1, 1), (7, 16)])
def test_history_is_as_it_was_afterwards(shape: tuple[int, int]) -> None:
    values = np.random.default_rng(1).random(shape).astype(np.float32)
    before = values.copy()
    over_window(block(values), [*PLAIN, ("rate", None)])
    np.testing.assert_array_equal(values, before)


def test_a_rate_is_from_the_first_sample_to_the_last() -> None:
    values = np.array([[np.nan, 5, 9, 1], [7, np.nan, np.nan, np.nan], [20, 30, np.nan, 3]])
    results, _ = over_window(block(values.astype(np.float32)), [("rate", None)])
    np.testing.assert_allclose(results["rate", None], [2.0, 1.5, np.nan, 0.15])


def test_no_rows_are_no_values() -> None:
    empty = SampleBlock((), (), 10.0, 30.0, 4)
    results, counts = over_window(empty, PLAIN)
    assert counts.tolist() == [0] * 4
    assert all(np.isnan(v).all() for (f, _), v in results.items() if f != "count")


def test_minutes_weigh_by_their_samples() -> None:
    means = np.array([[1.0], [4.0], [np.nan]], np.float32)
    counts = np.array([[6.0], [2.0], [0.0]], np.float32)
    minutes = SampleBlock((means[:2], means[2:]), (counts[:2], counts[2:]), 60.0, 18.0, 1)
    names = [(f, None) for f in ("avg", "sum", "count", "max")]
    results, samples_ = over_window(minutes, names)
    assert [float(results[name][0]) for name in names] == [1.75, 14.0, 8.0, 4.0]
    assert samples_.tolist() == [8.0]


def test_groups_are_those_of_plain_python() -> None:
    rng = np.random.default_rng(3)
    values = rng.normal(0, 2, 500).astype(np.float32)
    values[rng.random(500) < 0.2] = np.nan
    values[:4] = [0.0, -0.0, np.inf, -np.inf]
    groups = rng.integers(-1, 40, 500)
    groups[groups == 17] = 18
    grouped = GroupedValues(values, groups, 41)
    plain: Mapping[str, Callable[[Samples], float]] = {
        "min": np.min,
        "max": np.max,
        "median": np.median,
        "count": np.size,
        "quantile": lambda x: float(np.quantile(x, 0.3)),
    }
    for function, expected in plain.items():
        result = grouped.reduce(GROUP_FUNCTIONS[function].compute, 0.3)
        for group in range(41):
            inside = values[(groups == group) & ~np.isnan(values)]
            if np.isfinite(inside).all() and inside.size:
                assert result[group] == pytest.approx(expected(inside), rel=1e-5, abs=1e-6)
    assert np.isnan(grouped.reduce(GROUP_FUNCTIONS["sum"].compute, None)[[17, 40]]).all()
    assert grouped.counts[17] == 0


def test_the_share_of_a_group_counts_those_without_a_value() -> None:
    values = np.array([1, np.nan, 3, np.nan], np.float32)
    groups = np.array([0, 0, 1, 2])
    np.testing.assert_equal(GroupedValues(values, groups, 4).share(groups), [0.5, 1.0, 0.0, np.nan])
