"""OFU and its uncertainty on traces whose clock follows the work: 5 minutes of each kind.

A minute to start with is left out. bench/clock.py plays half an hour of each, at several intervals.
"""

from __future__ import annotations

import pytest

from tests.sources.nvml.played import (
    CYCLES,
    MEAN_CLOCK,
    errors,
    ladder_errors,
    means,
    play,
    rms,
    uncertainties,
)
from tests.sources.nvml.rig import Rig
from tests.sources.nvml.traces import KINDS, trace

SECONDS = 360
POSED = [kind for kind in KINDS if kind != "in_phase"]
"""Whose windows are not all alike: an error has a distribution."""


@pytest.mark.parametrize("kind", KINDS)
def test_windows_are_right_to_half_a_point_with_samples_of_the_clock(rig: Rig, kind: str) -> None:
    windows = play(rig, trace(kind, SECONDS))
    assert {each.seen.state("ofu_method") for each in windows} == {"mean_clock"}
    wrong, told = errors(windows), uncertainties(windows)
    assert len(wrong) == len(windows)
    assert rms(wrong) <= 0.5
    assert abs(wrong.mean()) <= 0.2  # one mean of 5 minutes; their RMS is in bench/clock.py
    assert (abs(wrong) <= 2 * told).mean() >= 0.9
    if kind in POSED:
        assert rms(told) <= 3 * rms(wrong)


def test_windows_of_30_s_are_right_too(rig: Rig) -> None:
    assert rms(errors(play(rig, trace("power_cap", SECONDS), 30.0))) <= 0.5


@pytest.mark.parametrize("kind", KINDS)
def test_the_clock_at_the_end_alone_is_off_by_points_and_says_so(rig: Rig, kind: str) -> None:
    windows = play(rig, trace(kind, SECONDS), without=(*CYCLES, *MEAN_CLOCK))
    wrong, told = errors(windows), uncertainties(windows)
    assert rms(wrong) > 0.8
    assert (abs(wrong) <= 2 * told).mean() >= 0.9
    assert rms(told) <= 3 * rms(wrong)
    methods = {each.seen.state("ofu_method") for each in windows if "ofu" in each.seen.values}
    assert methods == {"end_clock"}


@pytest.mark.parametrize("scale", [1, 132, 528])
@pytest.mark.parametrize("kind", ["power_cap", "idle_drop", "clock_stops"])
def test_cycle_counters_are_calibrated_in_a_window_or_two_and_are_exact(
    rig: Rig, kind: str, scale: int
) -> None:
    rig.stub.set(cycle_scale=scale)
    windows = play(rig, trace(kind, 120), without=())
    methods = [each.seen.state("ofu_method") for each in windows]
    counted = [each for each in windows if each.seen.state("ofu_method") == "cycles"]
    assert "cycles" in methods[:2]
    assert rms(errors(counted)) <= 0.02


@pytest.mark.parametrize("kind", KINDS)
def test_an_impossible_scale_calibrates_in_no_window(rig: Rig, kind: str) -> None:
    rig.stub.set(cycle_scale=66)
    windows = play(rig, trace(kind, 160), without=())
    assert "cycles" not in {each.seen.state("ofu_method") for each in windows}


@pytest.mark.parametrize("kind", ["power_cap", "long_steps"])
def test_means_get_better_with_their_length(rig: Rig, kind: str) -> None:
    wrong = errors(play(rig, trace(kind, SECONDS)))
    assert rms(means(wrong, 10)) < rms(wrong)


@pytest.mark.parametrize("no_idle_reason", [0, 1])
@pytest.mark.parametrize("kind", KINDS)
def test_every_rung_of_the_ladder_is_right_to_a_point(
    rig: Rig, kind: str, no_idle_reason: int
) -> None:
    rig.stub.set(no_idle_reason=no_idle_reason)
    windows = play(rig, trace(kind, SECONDS))
    assert {k: off for k, off in ladder_errors(windows).items() if abs(off) > 1} == {}
    if not no_idle_reason:
        split = [each for each in windows if "gpu_loss:clock" in each.seen.values]
        assert len(split) >= 0.9 * len(windows)
