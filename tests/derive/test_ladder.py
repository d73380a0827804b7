"""The ladder: where every point of a window went; what is not known is merged by name."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_ofu.derive.ladder import KINDS, LOSS, MERGED
from otel_ofu.model import Observation
from tests.derive.readings import derive, reading

REFERENCE_HZ = 1.83e9
# A step: 70 % of the time busy at 1420 MHz with 93 % of SMs and 62 % of tensor cycles; then 1980.
ENGINE, BUSY_HZ, REST_HZ, SM, TENSOR = 0.7, 1.42e9, 1.98e9, 0.93, 0.62
MEAN_HZ = ENGINE * BUSY_HZ + (1 - ENGINE) * REST_HZ
CYCLES = ENGINE * BUSY_HZ / MEAN_HZ
STEP = {
    "gr_engine_active": ENGINE,
    "sm_active": SM * CYCLES,
    "tensor_active": TENSOR * CYCLES,
    "sm_clock": REST_HZ,
    "sm_clock_mean": MEAN_HZ,
    "sm_clock_mean_error": 1e6,
    "sm_clock_busy": BUSY_HZ,
}


def losses(seen: Observation) -> dict[str, float]:
    return {
        key.partition(":")[2]: value
        for key, value in seen.values.items()
        if key.partition(":")[0] == LOSS
    }


def total(seen: Observation) -> float:
    found = losses(seen)
    return seen.values["ofu"] + sum(found.values()) - 2 * found.get("boost", 0.0)


def test_each_rung_is_what_happened_in_time() -> None:
    found = losses(derive(reading(STEP)))
    assert found == pytest.approx(
        {
            "idle": 0.3,
            "no_sm": 0.7 * 0.07,
            "no_tensor": 0.7 * 0.31,
            "clock": 0.7 * 0.62 * (1 - 1.42 / 1.83),
            "boost": 0.0,
        }
    )


def test_a_loader_stall_on_a_board_that_drops_its_clock_is_idle_and_no_loss_of_the_clock() -> None:
    mean_hz = 0.5 * 1.755e9 + 0.5 * 0.345e9
    cycles = 0.5 * 1.755e9 / mean_hz
    values = STEP | {
        "gr_engine_active": 0.5,
        "sm_active": 0.93 * cycles,
        "tensor_active": 0.62 * cycles,
        "sm_clock_mean": mean_hz,
        "sm_clock_busy": 1.755e9,
    }
    found = losses(derive(reading(values)))
    assert found["idle"] == 0.5
    assert found["clock"] == pytest.approx(0.5 * 0.62 * (1 - 1.755 / 1.83))


def test_work_above_the_reference_clock_is_a_gain_of_its_own_kind() -> None:
    values = STEP | {"gr_engine_active": 1.0, "sm_clock_mean": 1.98e9, "sm_clock_busy": 1.98e9}
    seen = derive(reading(values))
    found = losses(seen)
    assert found["clock"] == 0
    assert found["boost"] == pytest.approx(values["tensor_active"] * (1.98 / 1.83 - 1))
    assert total(seen) == pytest.approx(1)


def test_without_the_clock_while_busy_the_rungs_that_need_it_are_one() -> None:
    values = {key: value for key, value in STEP.items() if key != "sm_clock_busy"}
    seen = derive(reading(values))
    assert losses(seen) == pytest.approx({"idle": 0.3, "unsplit": 0.7 - seen.values["ofu"]})


@pytest.mark.parametrize("missing", ["sm_clock_busy", "sm_clock_mean"])
def test_a_gpu_that_was_always_busy_had_its_mean_clock_while_busy(missing: str) -> None:
    values = {key: value for key, value in STEP.items() if key != missing}
    assert set(losses(derive(reading(values | {"gr_engine_active": 1.0})))) == {
        "idle", "no_sm", "no_tensor", "clock", "boost",
    }  # fmt: skip


def test_an_idle_window_needs_no_clock_while_busy() -> None:
    values = STEP | {"gr_engine_active": 0.0, "sm_active": 0.0, "tensor_active": 0.0}
    del values["sm_clock_busy"]
    found = losses(derive(reading(values)))
    assert found == {"idle": 1, "no_sm": 0, "no_tensor": 0, "clock": 0, "boost": 0}


@pytest.mark.parametrize(
    ("missing", "kinds"),
    [
        (["sm_active"], {"idle", "no_sm_and_no_tensor", "clock", "boost"}),
        (["gr_engine_active"], {"idle_and_no_sm", "no_tensor", "clock", "boost"}),
        (
            ["gr_engine_active", "sm_active"],
            {"idle_and_no_sm_and_no_tensor", "clock", "boost"},
        ),
        (["gr_engine_active", "sm_clock_busy"], {"idle_and_unsplit"}),
        (["sm_active", "sm_clock_busy"], {"idle", "unsplit"}),
    ],
)
def test_rungs_that_a_missing_counter_does_not_tell_apart_are_one_by_name(
    missing: list[str], kinds: set[str]
) -> None:
    seen = derive(reading({k: v for k, v in STEP.items() if k not in missing}))
    assert set(losses(seen)) == kinds
    assert total(seen) == pytest.approx(1)


def test_without_an_ofu_there_is_no_ladder() -> None:
    values = {key: value for key, value in STEP.items() if key != "tensor_active"}
    assert losses(derive(reading(values))) == {}


shares = st.floats(0, 1)


@given(
    st.fixed_dictionaries(
        {"tensor_active": shares},
        optional={
            "gr_engine_active": shares,
            "sm_active": shares,
            "sm_clock_mean": st.floats(1e8, 2e9),
            "sm_clock_busy": st.floats(1e8, 2e9),
        },
    )
)
def test_the_rungs_and_the_ofu_are_always_the_whole_window(values: dict[str, float]) -> None:
    seen = derive(reading({"sm_clock": 1.5e9, "max_sm_clock": 1.98e9} | values))
    assert total(seen) == pytest.approx(1)
    assert set(losses(seen)) <= {*KINDS, *MERGED}
    assert all(losses(seen).get(kind, 0.0) >= 0 for kind in ("clock", "boost"))
