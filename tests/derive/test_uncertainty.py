"""How an OFU was got, and its uncertainty; tests/sources/nvml/test_traces.py holds both to work."""

from __future__ import annotations

import pytest

from otel_ofu.derive import Deriver, DeriverSettings
from otel_ofu.derive.uncertainty import JITTER, RESOLUTION, STEP, TAKING_TURNS
from otel_ofu.model import Observation
from otel_ofu.model.reading import MULTIPLEXED
from tests.derive.readings import BUSY, derive, reading

REFERENCE_HZ = 1.83e9
FULL = BUSY | {"gr_engine_active": 1.0}
MEAN = FULL | {"sm_clock_mean": 1.5e9, "sm_clock_mean_error": 18.3e6}


def told(seen: Observation) -> tuple[str, float]:
    return seen.state("ofu_method"), seen.values["ofu_uncertainty"]


def test_with_a_mean_clock_it_is_the_error_of_the_mean_times_the_activity() -> None:
    seen = derive(reading(MEAN))
    assert seen.values["ofu"] == pytest.approx(0.4375 * 1.5 / 1.83)
    method, found = told(seen)
    assert method == "mean_clock"
    assert found == pytest.approx((0.4375**2 * 1e-4 + RESOLUTION**2) ** 0.5)


def test_a_clock_that_stood_still_leaves_the_resolution_of_the_counters() -> None:
    assert told(derive(reading(MEAN | {"sm_clock_mean_error": 0.0})))[1] == RESOLUTION


def test_with_the_clock_at_the_end_a_busy_window_is_known_to_its_jitter() -> None:
    method, found = told(derive(reading(FULL)))
    assert method == "end_clock"
    assert found == pytest.approx(0.4375 * JITTER, rel=0.01)


@pytest.mark.parametrize("key", ["gr_engine_active", "gpu_util"])
def test_and_a_window_that_was_busy_in_part_to_a_part_of_the_step(key: str) -> None:
    _, found = told(derive(reading(BUSY | {key: 0.8})))
    assert found == pytest.approx(0.4375 * STEP * 0.4, rel=0.01)


def test_what_is_not_known_to_be_busy_may_be_mixed() -> None:
    assert told(derive(reading(BUSY)))[1] == pytest.approx(0.4375 * STEP * 0.5, rel=0.01)


def test_ends_of_equally_busy_windows_that_differ_widen_it() -> None:
    deriver = Deriver(DeriverSettings())
    windows = [FULL | {"sm_clock": 1.5e9 if n % 2 else 1.4e9} for n in range(20)]
    seen = [deriver.derive(reading(w, start_s=10.0 * n)) for n, w in enumerate(windows)]
    assert told(seen[-1])[1] == pytest.approx(0.4375 * 0.1e9 / 2**0.5 / REFERENCE_HZ, rel=0.01)


def test_counters_that_are_read_in_turns_are_known_less_well() -> None:
    method, found = told(derive(reading(MEAN, quality=MULTIPLEXED)))
    assert method == "multiplexed"
    assert found > TAKING_TURNS * 0.4375 * 1.5 / 1.83


def test_without_an_ofu_there_is_neither() -> None:
    seen = derive(reading({"sm_clock": 1.4e9}))
    assert seen.state("ofu_method") == ""
    assert seen.gaps["ofu_uncertainty"] == seen.gaps["ofu"]
