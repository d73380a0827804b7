from __future__ import annotations

import numpy as np
import pytest

from otel_ofu.store import Retention
from tests.store.fleets import NAN, Bench, gpu, seen

HOURS = Retention(
    depth_s=300, minutes={("gpu", "ofu"): 7200.0, ("gpu", "energy"): 7200.0}, forget_s=1e9
)


def test_hours_are_kept_as_means_of_minutes() -> None:
    bench = Bench(HOURS)
    for at_s in range(10, 7210, 10):
        bench.write(seen(gpu(), at_s, {"ofu": (at_s - 1) // 60 / 1000}))
    means, counts = bench.minutes("ofu", 7200, 7200)
    np.testing.assert_allclose(means, np.arange(120) / 1000, atol=1e-4)
    assert counts == [6.0] * 120


def test_the_mean_of_equal_values_is_that_value() -> None:
    bench = Bench(HOURS)
    for at_s in range(10, 610, 10):
        bench.write(seen(gpu(), at_s, {"ofu": 1.837e9}))
    means, _ = bench.minutes("ofu", 600, 600)
    assert set(means) == {float(np.float32(1.837e9))}


def test_the_minute_that_is_not_over_yet_is_there() -> None:
    bench = Bench(HOURS)
    for at_s in (50, 60, 70, 80):
        bench.write(seen(gpu(), at_s, {"ofu": at_s / 100}))
    assert bench.minutes("ofu", 120, 80) == ([0.55, 0.75], [2.0, 2.0])
    bench.write(seen(gpu(), 90, {"ofu": 0.9}))
    assert bench.minutes("ofu", 120, 90) == ([0.55, 0.8], [2.0, 3.0])


def test_minutes_in_which_nobody_reported_are_missing() -> None:
    bench = Bench(HOURS)
    bench.write(seen(gpu(), 60, {"ofu": 0.5}))
    bench.write(seen(gpu(), 7200, {"ofu": 0.7}))
    bench.write(seen(gpu(), 14_000, {"ofu": 0.9}))
    means, counts = bench.minutes("ofu", 7200, 14_000)
    assert means[-1] == 0.9
    assert [m for m in means if not np.isnan(m)] == [0.7, 0.9]
    assert sum(counts) == 2


def test_late_points_count_as_long_as_their_minute_is_in_the_rows() -> None:
    bench = Bench(HOURS)
    for at_s in range(10, 310, 10):
        bench.write(seen(gpu(), at_s, {"ofu": 0.5}))
    bench.minutes("ofu", 300, 300)
    bench.write(seen(gpu("GPU-1"), 130, {"ofu": 0.9}), seen(gpu(), 140, {"ofu": 1.1}))
    means, _ = bench.minutes("ofu", 300, 300)
    assert means == [0.5, 0.5, 0.6, 0.5, 0.5]


def test_a_minute_half_of_whose_rows_are_gone_stays_as_it_was() -> None:
    bench = Bench(HOURS)
    for at_s in range(10, 400, 10):
        bench.write(seen(gpu(), at_s, {"ofu": 0.5}))
    bench.write(seen(gpu(), 100, {"ofu": 0.9}))
    assert bench.minutes("ofu", 390, 390)[1][:3] == [6.0, 6.0, 6.0]


def test_increments_of_counters_add_up_over_minutes() -> None:
    bench = Bench(HOURS)
    for at_s in range(0, 610, 10):
        bench.write(seen(gpu(), at_s, {"energy": 1e12 + 7 * at_s}))
    means, counts = bench.minutes("energy", 600, 600)
    assert sum(m * n for m, n in zip(means, counts, strict=True)) == 7 * 600


@pytest.mark.parametrize("step_s", [7.0, 30.0, 90.0])
def test_steps_that_do_not_divide_a_minute_lose_nothing(step_s: float) -> None:
    bench = Bench(HOURS, step_s=step_s)
    times = [step_s * n for n in range(1, int(3_600 / step_s))]
    for at_s in times:
        bench.write(seen(gpu(), at_s, {"ofu": 0.5}, length_s=step_s))
    means, counts = bench.minutes("ofu", 7200, 3600)
    assert sum(counts) == len(times)
    assert {m for m in means if not np.isnan(m)} == {0.5}


def test_metrics_without_long_windows_have_no_minutes() -> None:
    bench = Bench(HOURS)
    bench.write(seen(gpu(), 60, {"power": 5.0}))
    assert bench.minutes("power", 600, 60) == ([], [])


def test_a_new_retention_keeps_what_is_there() -> None:
    bench = Bench(Retention(depth_s=600))
    for at_s in range(10, 610, 10):
        bench.write(seen(gpu(), at_s, {"ofu": at_s / 1000, "energy": at_s, "power": 1.0}))
    bench.store.retain(HOURS)
    assert bench.rows("ofu", 300, 600) == [at_s / 1000 for at_s in range(310, 610, 10)]
    assert bench.minutes("ofu", 240, 600)[1] == [6.0] * 4
    bench.store.retain(Retention(depth_s=900, only=frozenset({("gpu", "ofu")})))
    bench.write(seen(gpu(), 610, {"ofu": 0.9, "power": 1.0}))
    rows = bench.rows("ofu", 900, 610)
    np.testing.assert_equal(rows[-33:-31], [NAN, 0.3])
    assert rows[-1] == 0.9
    assert bench.store.block("gpu", "power", 0, 1).length == 0
