from __future__ import annotations

from dataclasses import replace

import pytest

from otel_ofu.derive.counters import CycleMeter, CycleShare, nearest_scale
from otel_ofu.derive.deriver import Deriver
from otel_ofu.derive.settings import DeriverSettings
from otel_ofu.model import Window
from tests.derive.readings import H100, MIG, reading

SMS = 132
CLOCK_HZ = 1.6e9


class Counters:
    """Counters of a GPU as a driver would keep them."""

    def __init__(self, scale: int) -> None:
        self.scale = scale
        self.elapsed = 7e14
        self.mma = 2e14

    def window(
        self, tensor: float, clock_hz: float = CLOCK_HZ, length_s: float = 10
    ) -> dict[str, float]:
        cycles = clock_hz * length_s * self.scale
        self.elapsed += cycles
        self.mma += tensor * cycles
        return {
            "sm_cycles_elapsed": self.elapsed,
            "mma_cycles_active": self.mma,
            "tensor_active": tensor,
            "sm_clock": clock_hz,
        }


def _feed(meter: CycleMeter, windows: list[dict[str, float]]) -> list[CycleShare | None]:
    return [meter.observe(v, Window(10.0 * i, 10.0 * i + 10), SMS) for i, v in enumerate(windows)]


@pytest.mark.parametrize("scale", [1, SMS, SMS * 4])
def test_the_scale_is_found_in_one_window_whose_clock_is_the_same_at_both_ends(scale: int) -> None:
    counters = Counters(scale)
    seen = _feed(CycleMeter(), [counters.window(0.5) for _ in range(3)])
    assert [share is not None for share in seen] == [False, True, True]
    assert seen[-1] is not None
    assert seen[-1].scale == scale
    assert seen[-1].clock_hz == pytest.approx(CLOCK_HZ)


@pytest.mark.parametrize("scale", [2, 16, 66, 1000])
def test_an_impossible_scale_is_never_used(scale: int) -> None:
    counters = Counters(scale)
    assert set(_feed(CycleMeter(), [counters.window(0.5) for _ in range(9)])) == {None}


@pytest.mark.parametrize(
    ("sampled_hz", "used"),
    [(CLOCK_HZ / 1.14, True), (CLOCK_HZ / 1.16, False), (CLOCK_HZ / 0.86, True),
     (CLOCK_HZ / 0.84, False), (CLOCK_HZ / 1.4, False)],
)  # fmt: skip
@pytest.mark.parametrize("scale", [1, SMS, SMS * 4])
def test_counters_that_disagree_with_the_sampled_clock_by_over_15_percent_are_not_used(
    scale: int, sampled_hz: float, *, used: bool
) -> None:
    counters = Counters(scale)
    windows = [counters.window(0.5) | {"sm_clock": sampled_hz} for _ in range(9)]
    assert (_feed(CycleMeter(), windows)[-1] is not None) is used


def test_counters_that_disagree_with_the_sampled_activity_are_not_used() -> None:
    counters = Counters(1)
    windows = [counters.window(0.5) | {"tensor_active": 0.6} for _ in range(9)]
    assert set(_feed(CycleMeter(), windows)) == {None}


def test_an_idle_gpu_proves_nothing() -> None:
    counters = Counters(SMS)
    assert set(_feed(CycleMeter(), [counters.window(0.0) for _ in range(9)])) == {None}


def test_without_counters_there_is_nothing() -> None:
    assert set(_feed(CycleMeter(), [{"tensor_active": 0.5, "sm_clock": 1e9}] * 9)) == {None}


def _calibrated(counters: Counters) -> CycleMeter:
    meter = CycleMeter()
    assert _feed(meter, [counters.window(0.5) for _ in range(4)])[-1] is not None
    return meter


def test_a_missed_window_is_not_mixed_into_the_next() -> None:
    counters = Counters(1)
    meter = _calibrated(counters)
    counters.window(0.9)
    assert meter.observe(counters.window(0.5), Window(50, 60), SMS) is None
    assert meter.observe(counters.window(0.5), Window(60, 70), SMS) is not None


def test_a_reset_starts_the_calibration_again() -> None:
    counters = Counters(1)
    meter = _calibrated(counters)
    counters.elapsed = counters.mma = 0
    values = [counters.window(0.5) for _ in range(4)]
    seen = [meter.observe(v, Window(40 + 10 * i, 50 + 10 * i), SMS) for i, v in enumerate(values)]
    assert [share is not None for share in seen] == [False, True, True, True]


def test_the_same_totals_twice_are_no_window_and_the_same_window_twice_is_one() -> None:
    counters = Counters(1)
    meter = _calibrated(counters)
    values = counters.window(0.5)
    first = meter.observe(values, Window(40, 50), SMS)
    assert first is not None
    assert meter.observe(values, Window(40, 50), SMS) == first
    assert meter.observe(values, Window(50, 60), SMS) is None


@pytest.mark.parametrize(
    ("ratio", "scale"), [(0.9, 1), (1.1, 1), (0.5, None), (140, 132), (500, 528)]
)
def test_a_ratio_is_near_a_possible_scale_or_none(ratio: float, scale: int | None) -> None:
    assert nearest_scale(ratio, SMS) == scale


def test_an_unknown_model_can_only_count_one_sm() -> None:
    assert nearest_scale(1.0, None) == 1
    assert nearest_scale(132.0, None) is None


def test_ofu_comes_from_the_counters_once_calibrated_and_survives_a_bad_clock_sample() -> None:
    deriver, counters = Deriver(DeriverSettings()), Counters(SMS)
    for i in range(4):
        deriver.derive(reading(counters.window(0.5), start_s=10.0 * i))
    values = counters.window(0.5) | {"sm_clock": 0.3e9}
    observation = deriver.derive(reading(values, start_s=40))
    assert observation.values["ofu"] == pytest.approx(0.5 * CLOCK_HZ / 1.83e9)
    assert observation.values["clock_factor"] == pytest.approx(CLOCK_HZ / 1.83e9)


def test_until_then_the_sampled_product_is_used() -> None:
    deriver, counters = Deriver(DeriverSettings()), Counters(SMS)
    observation = deriver.derive(reading(counters.window(0.5)))
    assert observation.values["ofu"] == pytest.approx(0.5 * CLOCK_HZ / 1.83e9)


def test_a_mig_instance_never_uses_the_counters_of_the_gpu() -> None:
    deriver, counters = Deriver(DeriverSettings()), Counters(SMS)
    for i in range(6):
        deriver.derive(reading(counters.window(0.5), MIG, start_s=10.0 * i))
    values = counters.window(0.5) | {"sm_clock": 0.915e9}
    observation = deriver.derive(reading(values, MIG, start_s=60))
    assert observation.values["ofu"] == pytest.approx(0.25)


def test_a_new_job_on_the_gpu_begins_anew() -> None:
    deriver, counters = Deriver(DeriverSettings()), Counters(SMS)
    for i in range(5):
        deriver.derive(reading(counters.window(0.5), H100, start_s=10.0 * i))
    values = counters.window(0.5) | {"sm_clock": 0.915e9}
    observation = deriver.derive(reading(values, H100, start_s=50), owner={"ofu.job.id": "8"})
    assert observation.values["ofu"] == pytest.approx(0.25)


def test_hardly_any_activity_proves_nothing() -> None:
    counters = Counters(SMS)
    assert set(_feed(CycleMeter(), [counters.window(0.01) for _ in range(9)])) == {None}


def test_a_window_whose_ends_differ_calibrates_nothing() -> None:
    counters = Counters(1)
    ends = [1.6e9, 1.4e9, 1.6e9, 1.4e9]
    windows = [counters.window(0.5) | {"sm_clock": hz} for hz in ends]
    assert set(_feed(CycleMeter(), windows)) == {None}


@pytest.mark.parametrize(("error", "calibrates"), [(0.04, True), (0.06, False)])
def test_a_mean_clock_with_a_small_error_calibrates_whatever_the_ends_are(
    error: float, *, calibrates: bool
) -> None:
    counters = Counters(SMS)
    mean = {"sm_clock_mean": CLOCK_HZ, "sm_clock_mean_error": error * CLOCK_HZ}
    windows = [counters.window(0.5) | mean | {"sm_clock": hz} for hz in (0.3e9, 1.9e9)]
    share = _feed(CycleMeter(), windows)[-1]
    assert (share is not None and share.scale == SMS) is calibrates


def test_counters_are_divided_by_the_time_between_their_own_samples() -> None:
    deriver, counters = Deriver(DeriverSettings()), Counters(SMS)
    for i in range(3):
        deriver.derive(reading(counters.window(0.5), start_s=10.0 * i))
    values = counters.window(0.5, length_s=5)  # the engine's sample came 5 s before the tick
    late = replace(reading(values, start_s=30), windows={"mma_cycles_active": Window(30.0, 35.0)})
    observation = deriver.derive(late)
    assert observation.state("ofu_method") == "cycles"
    assert observation.values["ofu"] == pytest.approx(0.5 * CLOCK_HZ / 1.83e9)


def test_more_active_than_elapsed_cycles_are_not_believed() -> None:
    counters = Counters(1)
    meter = _calibrated(counters)
    counters.mma += 1e12
    assert meter.observe(counters.window(0.5), Window(40, 50), SMS) is None


def test_the_totals_of_another_source_are_not_subtracted() -> None:
    deriver, counters = Deriver(DeriverSettings()), Counters(SMS)
    for i in range(5):
        deriver.derive(reading(counters.window(0.5), start_s=10.0 * i))
    counters.elapsed, counters.mma = 1.01 * counters.elapsed, 1.01 * counters.mma
    taken_over = reading(counters.window(0.5), start_s=50.0)
    seen = deriver.derive(replace(taken_over, source="dcgm"))
    assert seen.values["ofu"] == pytest.approx(0.5 * CLOCK_HZ / 1.83e9)
