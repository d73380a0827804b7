"""Life of a page: new, repeated, stale. Times are virtual; the source reads every 10 s."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_ofu.model import GapReason, Window
from otel_ofu.sources.scrape.freshness import FORGET_AFTER_S, Age, DeviceValues, Freshness

INTERVAL_S = 10.0
DCGM_S = 30.0


def busy(step: int) -> DeviceValues:
    return DeviceValues({"tensor_active": 0.4, "energy": 1000.0 + step})


def idle() -> DeviceValues:
    return DeviceValues({"tensor_active": 0.0, "sm_clock": 345e6})


def outcome(
    freshness: Freshness, now_s: float, seen: DeviceValues, assumed_s: float = DCGM_S
) -> str:
    age = freshness.judge(now_s, {"g": seen}, assumed_s)["g"]
    return "used" if age.gap is None else str(age.gap.reason)


def test_a_page_that_the_exporter_did_not_refresh_is_used_once() -> None:
    freshness = Freshness(INTERVAL_S)
    steps = [0, 0, 0, 1, 1, 1, 2]
    outcomes = [outcome(freshness, 10.0 * i, busy(step)) for i, step in enumerate(steps)]
    assert outcomes == ["used", "not_ready", "not_ready"] * 2 + ["used"]


def test_the_window_is_the_time_between_two_different_pages() -> None:
    freshness = Freshness(INTERVAL_S)
    windows = []
    for i, step in enumerate([0, 0, 0, 1, 1, 1, 2]):
        age = freshness.judge(10.0 * i, {"g": busy(step)}, DCGM_S)["g"]
        if age.gap is None:
            windows.append(age.window)
    assert windows == [Window(-10, 0), Window(0, 30), Window(30, 60)]
    assert freshness.learned_s == 30.0


def test_a_page_that_stands_still_for_three_periods_is_stale() -> None:
    freshness = Freshness(INTERVAL_S)
    outcomes = [outcome(freshness, 10.0 * i, busy(0)) for i in range(12)]
    assert outcomes == ["used"] + ["not_ready"] * 9 + ["stale"] * 2


def test_a_shorter_period_is_learned() -> None:
    freshness = Freshness(INTERVAL_S)
    for i in range(4):
        assert outcome(freshness, 10.0 * i, busy(i)) == "used"
    outcomes = [outcome(freshness, 10.0 * i, busy(3)) for i in range(4, 9)]
    assert outcomes == ["not_ready"] * 3 + ["stale"] * 2


def test_a_stale_page_stays_stale_for_ever() -> None:
    freshness = Freshness(INTERVAL_S)
    outcomes = {outcome(freshness, 10.0 * i, busy(0)) for i in range(10, 200)}
    assert outcomes == {"used", "not_ready", "stale"}
    late = [outcome(freshness, 10.0 * i, busy(0)) for i in range(200, 300)]
    assert set(late) == {"stale"}


def test_after_a_long_silence_the_window_speaks_of_the_last_refresh_only() -> None:
    freshness = Freshness(INTERVAL_S)
    freshness.judge(0, {"g": busy(0)}, DCGM_S)
    age = freshness.judge(6000, {"g": busy(1)}, DCGM_S)["g"]
    assert age == Age(Window(6000 - 2 * DCGM_S, 6000))
    assert freshness.learned_s is None


def test_a_frozen_gpu_on_a_living_page_is_told_apart() -> None:
    freshness = Freshness(INTERVAL_S)
    last = None
    for i in range(12):
        ages = freshness.judge(10.0 * i, {"alive": busy(i), "frozen": busy(0)}, DCGM_S)
        assert ages["alive"].gap is None
        last = ages["frozen"].gap
    assert last is not None
    assert last.reason is GapReason.STALE


def test_an_idle_gpu_without_a_witness_is_not_taken_for_stale() -> None:
    freshness = Freshness(INTERVAL_S)
    outcomes = [outcome(freshness, 10.0 * i, idle()) for i in range(200)]
    assert outcomes[:7] == ["used", "not_ready", "not_ready"] * 2 + ["used"]
    assert "stale" not in outcomes


def test_windows_of_an_idle_gpu_leave_no_hole_and_do_not_overlap() -> None:
    freshness = Freshness(INTERVAL_S)
    ages = [freshness.judge(10.0 * i, {"g": idle()}, DCGM_S)["g"] for i in range(20)]
    used = [age.window for age in ages if age.gap is None]
    for before, after in itertools.pairwise(used):
        assert before.end_s == after.start_s


def test_an_idle_gpu_beside_a_busy_one_is_as_new_as_the_page() -> None:
    freshness = Freshness(INTERVAL_S)
    for i in range(5):
        ages = freshness.judge(10.0 * i, {"busy": busy(i), "idle": idle()}, DCGM_S)
        assert ages["idle"].gap is None
    ages = freshness.judge(50.0, {"busy": busy(4), "idle": idle()}, DCGM_S)
    assert ages["idle"].gap is not None


def test_an_exporter_that_reads_on_every_request_is_always_new() -> None:
    freshness = Freshness(INTERVAL_S)
    outcomes = {outcome(freshness, 10.0 * i, idle(), assumed_s=0) for i in range(50)}
    assert outcomes == {"used"}


def test_timestamps_are_witnesses() -> None:
    freshness = Freshness(INTERVAL_S)
    same = {"tensor_active": 0.0}
    assert outcome(freshness, 0, DeviceValues(same, 1000.0)) == "used"
    assert outcome(freshness, 10, DeviceValues(same, 1000.0)) == "not_ready"
    assert outcome(freshness, 20, DeviceValues(same, 1015.0)) == "used"


def test_an_energy_counter_that_is_not_supported_is_no_witness() -> None:
    assert not DeviceValues({"energy": 0.0}).has_witness


def test_a_device_that_was_away_for_a_moment_does_not_count_its_values_twice() -> None:
    freshness = Freshness(INTERVAL_S)
    freshness.judge(0, {"g": busy(0)}, DCGM_S)
    freshness.judge(10, {}, DCGM_S)
    assert outcome(freshness, 20, busy(0)) == "not_ready"


def test_a_device_that_was_away_for_long_is_forgotten() -> None:
    freshness = Freshness(INTERVAL_S)
    freshness.judge(0, {"g": busy(0)}, DCGM_S)
    freshness.judge(FORGET_AFTER_S + 10, {}, DCGM_S)
    assert outcome(freshness, FORGET_AFTER_S + 20, busy(0)) == "used"


@given(
    st.lists(st.integers(0, 1), min_size=1, max_size=60),
    st.sampled_from([1.0, 5.0, 10.0, 60.0]),
    st.sampled_from(["witness", "no witness"]),
)
def test_windows_of_used_values_never_overlap(
    advances: list[int], interval_s: float, kind: str
) -> None:
    freshness = Freshness(interval_s)
    step, end_s = 0, -1e9
    for i, advance in enumerate(advances):
        step += advance
        seen = busy(step) if kind == "witness" else DeviceValues({"tensor_active": float(step)})
        age = freshness.judge(i * interval_s, {"g": seen}, DCGM_S)["g"]
        if age.gap is None:
            assert age.window.start_s >= end_s or end_s < 0
            assert age.window.end_s == pytest.approx(i * interval_s)
            end_s = age.window.end_s
