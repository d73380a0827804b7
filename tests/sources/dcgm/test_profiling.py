"""Which profiling counters are watched, and what becomes of those that are refused."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_ofu.model import GapReason, Reading
from otel_ofu.sources.dcgm.engine import MetricGroup
from otel_ofu.sources.dcgm.fields import attempts, backend, choose
from tests.sources.dcgm.conftest import MakeRig
from tests.sources.dcgm.rig import A10_GROUPS, Rig, a10, h100

GROUPS = [MetricGroup(major, minor, tuple(ids)) for major, minor, ids in A10_GROUPS]  # type: ignore[arg-type]


def test_what_ofu_needs_wins_over_what_takes_turns_with_it() -> None:
    choice = choose([1004, 1008, 1001, 1005], GROUPS)
    assert choice.taken == (1004, 1001, 1005)
    assert choice.left == {1008: "cannot be watched together with field 1004"}


def test_the_order_of_wishes_decides() -> None:
    assert choose([1008, 1004], GROUPS).taken == (1008,)


def test_a_counter_that_no_group_has_is_not_there() -> None:
    assert choose([1004, 1086], GROUPS).left == {1086: "this GPU has no such counter"}


@given(
    wanted=st.lists(st.integers(1001, 1016), unique=True),
    groups=st.lists(
        st.builds(
            MetricGroup,
            st.integers(0, 3),
            st.integers(0, 3),
            st.lists(st.integers(1001, 1016), min_size=1, unique=True).map(tuple),
        ),
        max_size=8,
        unique_by=lambda g: (g.major, g.minor),
    ),
)
def test_no_two_taken_fields_ever_take_turns(wanted: list[int], groups: list[MetricGroup]) -> None:
    choice = choose(wanted, groups)
    assert sorted([*choice.taken, *choice.left]) == sorted(wanted)
    first_home = choice.taken and any(wanted[0] in g.fields for g in groups)
    assert not first_home or choice.taken[0] == wanted[0]
    one_per_major = [
        {g.major: g for g in groups if g in chosen}.values()
        for chosen in _ways(groups)
        if all(any(f in g.fields for g in chosen) for f in choice.taken)
    ]
    assert one_per_major or not choice.taken


def _ways(groups: list[MetricGroup]) -> list[list[MetricGroup]]:
    """All ways to take one minor group of each major."""
    ways: list[list[MetricGroup]] = [[]]
    for major in {g.major for g in groups}:
        ways = [[*w, g] for w in ways for g in groups if g.major == major]
    return ways


def test_less_is_asked_for_each_time_that_it_is_too_much() -> None:
    assert attempts((1004, 1001, 1014)) == [(1004, 1001, 1014), (1004, 1001), (1004,)]
    assert attempts((1014,)) == [(1014,)]


@pytest.mark.parametrize(
    ("gpm", "architecture", "expected"),
    [
        (True, "", "gpm"),
        (False, "hopper", "multiplexed"),
        (None, "hopper", "gpm"),
        (None, "", "multiplexed"),
    ],
)
def test_the_gpu_says_how_it_is_profiled(
    gpm: bool | None,  # noqa: FBT001 - a table
    architecture: str,
    expected: str,
) -> None:
    assert backend(GROUPS, architecture, gpm) == expected


def gap(reading: Reading, key: str) -> tuple[GapReason, str]:
    return reading.gaps[key].reason, reading.gaps[key].detail


def test_ampere_takes_what_ofu_needs_and_names_the_rest(rig: MakeRig) -> None:
    reading = rig({"gpus": [a10(0)]}).ready()[0]
    assert reading.values["tensor_active"] == 0.4375
    assert reading.values["dram_active"] == 0.5
    assert reading.quality == "multiplexed"
    assert gap(reading, "fp16_active") == (
        GapReason.NOT_SUPPORTED,
        "cannot be watched together with field 1004",
    )
    assert gap(reading, "mma_cycles_active")[1] == "this GPU has no such counter"


def test_too_much_at_once_leaves_the_essential(rig: MakeRig) -> None:
    reading = rig({"gpus": [h100(0, multi_pass_above=4)]}).ready()[0]
    assert {"tensor_active", "gr_engine_active", "sm_active", "dram_active"} <= set(reading.values)
    assert gap(reading, "fp32_active")[0] is GapReason.NOT_SUPPORTED


def test_only_tensor_activity_is_left_when_there_is_room_for_one(rig: MakeRig) -> None:
    reading = rig({"gpus": [h100(0, multi_pass_above=1)]}).ready()[0]
    assert reading.values["tensor_active"] == 0.4375
    assert "gr_engine_active" in reading.gaps


@pytest.mark.parametrize(
    ("code", "expected", "words"),
    [
        (-29, GapReason.NOT_PERMITTED, "administrators"),
        (-33, GapReason.NOT_SUPPORTED, "no profiling module"),
        (-34, GapReason.FAILED, "another profiler"),
        (-36, GapReason.NOT_SUPPORTED, "no profiling counters"),
        (-37, GapReason.FAILED, "does not recover"),
        (-54, GapReason.NOT_READY, "paused"),
    ],
)
def test_each_refusal_has_its_own_words_and_plain_fields_go_on(
    rig: MakeRig, code: int, expected: GapReason, words: str
) -> None:
    reading = rig({"gpus": [a10(0, profiling=code)]}).ready()[0]
    reason, detail = gap(reading, "tensor_active")
    assert reason is expected
    assert words in detail
    assert reading.values["sm_clock"] == 1410e6


@pytest.mark.parametrize(
    ("engine", "package", "other"),
    [
        ("4.6.0", "apt-get install datacenter-gpu-manager-4-proprietary", "reinstall"),
        ("3.3.9", "apt-get install --reinstall datacenter-gpu-manager;", "manager-4"),
    ],
)
def test_the_missing_module_is_one_trouble_with_the_package_of_that_engine(
    rig: MakeRig, engine: str, package: str, other: str
) -> None:
    one = rig(
        {
            "gpus": [a10(0, profiling=-33)],
            "engine_version": engine,
            "bindings_major": int(engine[0]),
        }
    )
    one.ready()
    seen = set()
    for _ in range(20):
        one.tick()
        seen |= {t for t in one.source.troubles() if "module" in t.detail}
    assert len(seen) == 1
    detail = seen.pop().detail
    assert package in detail
    assert other not in detail


def tries(one: Rig) -> int:
    return int(one.engine.calls.count("metric groups"))


def test_a_refusal_is_tried_again_slowly_and_ends_when_the_cause_ends(rig: MakeRig) -> None:
    one = rig({"gpus": [a10(0, profiling=-34)]})
    one.ready()
    before = tries(one)
    for _ in range(3):
        one.tick()
    assert tries(one) == before
    one.state["gpus"][0]["profiling"] = 0
    seen = [one.tick()[0] for _ in range(5)]
    assert seen[-1].values["tensor_active"] == 0.4375
    assert "tensor_active" in seen[0].gaps


def test_tries_leave_nothing_in_the_engine(rig: MakeRig) -> None:
    one = rig({"gpus": [a10(0, profiling=-34)]})
    one.ready()
    connection = next(iter(one.engine.connections.values()))
    before = len(connection.field_groups)
    for _ in range(30):
        one.tick()
    assert tries(one) >= 4
    assert len(connection.field_groups) == before


def test_another_refusal_at_the_second_try_is_told(rig: MakeRig) -> None:
    one = rig({"gpus": [a10(0, profiling=-34)]})
    one.ready()
    one.state["gpus"][0]["profiling"] = -29
    seen = [one.tick()[0] for _ in range(7)]
    assert gap(seen[-1], "tensor_active")[0] is GapReason.NOT_PERMITTED


def test_a_gpu_without_counters_does_not_cost_another_model_its_own(rig: MakeRig) -> None:
    gpus: list[dict[str, Any]] = [h100(0), a10(1, name="NVIDIA T400", profiling=-36), h100(2)]
    readings = rig({"gpus": gpus}).ready()
    assert [r.device.uuid for r in readings] == ["GPU-0", "GPU-1", "GPU-2"]
    assert ["tensor_active" in r.values for r in readings] == [True, False, True]
    assert all("power" in r.values for r in readings)


def test_an_engine_that_cannot_say_gpm_is_asked_for_its_groups(rig: MakeRig) -> None:
    one = rig({"engine_version": "3.3.9", "bindings_major": 3, "gpus": [h100(0)]})
    reading = one.ready()[0]
    assert reading.values["tensor_active"] == 0.4375
    assert reading.device.architecture == ""
    assert gap(reading, "mma_cycles_active")[0] is GapReason.NOT_SUPPORTED
