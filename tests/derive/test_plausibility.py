"""Counters that contradict each other are gaps, and are named with both numbers."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from otel_ofu.derive import Deriver, DeriverSettings
from otel_ofu.model import Gap, GapReason, Observation
from tests.derive.readings import BUSY, derive, reading

ZEROS = dict.fromkeys(("tensor_active", "sm_active", "dram_active", "gr_engine_active"), 0.0)
STUCK_AT_ZERO = BUSY | ZEROS | {"gpu_util": 0.99, "power": 690.0, "power_limit": 700.0}
AT_WORK = {"tensor_active": 0.4, "sm_active": 0.9, "dram_active": 0.3, "power": 655.123}


def checks(values: Mapping[str, float]) -> set[str]:
    return {key.partition(":")[2] for key in values if key.startswith("implausible:")}


def test_every_activity_at_zero_on_a_busy_gpu_is_no_ofu_of_zero() -> None:
    observation = derive(reading(STUCK_AT_ZERO))
    why = "every activity is 0 at 99% utilization and 690 W"
    assert "ofu" not in observation.values
    assert observation.gaps["ofu"] == Gap(GapReason.IMPLAUSIBLE, why)
    assert observation.values["ofu_gap:implausible"] == 1
    assert {observation.gaps[key].reason for key in ZEROS} == {GapReason.IMPLAUSIBLE}
    assert checks(observation.values) == {"activity"}
    assert observation.values["power"] == 690


@pytest.mark.parametrize(
    "changed",
    [
        {"gpu_util": 0.5},  # of the moment before the tick
        {"power": 150.0},  # one small kernel
        {"sm_active": 0.0075},  # one SM of 132
        {"dram_active": 0.01},
    ],
)
def test_a_gpu_that_does_little_contradicts_nothing(changed: dict[str, float]) -> None:
    observation = derive(reading(STUCK_AT_ZERO | changed))
    assert observation.values["ofu"] == 0
    assert not checks(observation.values)


def test_tensor_activity_alone_at_zero_is_ordinary_work() -> None:
    values = {k: v for k, v in STUCK_AT_ZERO.items() if k not in ("sm_active", "gr_engine_active")}
    assert derive(reading(values)).values["ofu"] == 0


@pytest.mark.parametrize(
    ("check", "key", "values", "why"),
    [
        ("power", "power", {"power": 0.0, "gpu_util": 1.0}, "0 W at 100% utilization"),
        ("memory", "mem_used", {"mem_used": 9e10, "mem_total": 8e10},
         "90000000000 of 80000000000 bytes used"),
        ("temperature", "mem_temperature", {"mem_temperature": 0.0, "temperature": 61.0},
         "0 degC beside a GPU at 61 degC"),
    ],
)  # fmt: skip
def test_one_counter_gives_way_to_its_neighbour(
    check: str, key: str, values: dict[str, float], why: str
) -> None:
    observation = derive(reading(BUSY | values))
    assert key not in observation.values
    assert observation.gaps[key] == Gap(GapReason.IMPLAUSIBLE, why)
    assert checks(observation.values) == {check}
    assert observation.values["ofu"] > 0


def test_no_power_of_an_idle_gpu_and_memory_that_is_full_are_possible() -> None:
    values = {"power": 0.0, "gpu_util": 0.0, "mem_used": 8e10, "mem_total": 8e10}
    assert not checks(derive(reading(BUSY | values)).values)


def rounds(values: dict[str, float], count: int) -> list[Observation]:
    deriver = Deriver(DeriverSettings())
    return [deriver.derive(reading(BUSY | values, start_s=10.0 * i)) for i in range(count)]


def test_counters_that_do_not_move_for_ten_minutes_are_stuck() -> None:
    *before, last = rounds(AT_WORK, 60)
    assert not any(checks(observation.values) for observation in before)
    assert checks(last.values) == {"stuck"}
    assert last.gaps["ofu"] == Gap(GapReason.IMPLAUSIBLE, "no counter has moved for 600 s")


def test_counters_that_move_again_are_trusted_again() -> None:
    deriver = Deriver(DeriverSettings())
    for i in range(61):
        deriver.derive(reading(BUSY | AT_WORK, start_s=10.0 * i))
    moved = BUSY | AT_WORK | {"power": 655.124}
    assert deriver.derive(reading(moved, start_s=610.0)).values["ofu"] > 0


@pytest.mark.parametrize(
    "values", [ZEROS | {"power": 70.0}, {"tensor_active": 0.4, "power": 400.0}]
)
def test_an_idle_gpu_and_one_with_few_counters_may_stand_still(
    values: dict[str, float],
) -> None:
    assert not any(checks(observation.values) for observation in rounds(values, 70))
