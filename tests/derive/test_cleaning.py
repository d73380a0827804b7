from __future__ import annotations

from dataclasses import replace

import pytest

from otel_ofu.derive import Deriver, DeriverSettings
from otel_ofu.model import Gap, GapReason
from tests.derive.readings import BUSY, MIG, derive, reading

SENTINELS = [
    9223372036854775792.0,
    9223372036854775794.0,
    140737488355328.0,
    140737488355330.0,
    2147483632.0,
    2147483635.0,
    4294967295.0,
    float("nan"),
    float("inf"),
    float("-inf"),
    -1.0,
]


@pytest.mark.parametrize("value", [*SENTINELS, 1.4, 1.0000001, -0.05])
def test_an_impossible_share_becomes_a_gap_and_is_never_cut(value: float) -> None:
    observation = derive(reading(BUSY | {"tensor_active": value}))
    assert "tensor_active" not in observation.values
    assert observation.gaps["tensor_active"].reason is GapReason.OUT_OF_RANGE
    assert observation.gaps["ofu"] == observation.gaps["tensor_active"]
    assert observation.values["ofu_gap:out_of_range"] == 1


@pytest.mark.parametrize("key", ["sm_clock", "process_count", "power", "mem_used"])
@pytest.mark.parametrize("value", [v for v in SENTINELS if v != 4294967295.0])
def test_a_sentinel_is_no_gauge(key: str, value: float) -> None:
    observation = derive(reading(BUSY | {key: value}))
    assert key not in observation.values
    assert observation.gaps[key].reason is GapReason.OUT_OF_RANGE


@pytest.mark.parametrize("key", ["energy", "sm_cycles_elapsed", "xid:31"])
def test_a_counter_may_pass_the_double_blank_but_not_the_integer_one(key: str) -> None:
    assert derive(reading({key: 140737488355330.0})).values[key] == 140737488355330.0
    assert derive(reading({key: 5e18})).values[key] == 5e18
    blank = derive(reading({key: 9223372036854775794.0}))
    assert blank.gaps[key].reason is GapReason.OUT_OF_RANGE


def test_a_clock_in_hertz_may_pass_the_int32_blank() -> None:
    assert derive(reading({"sm_clock": 2.85e9})).values["sm_clock"] == 2.85e9


@pytest.mark.parametrize("key", ["tensor_active", "sm_active", "gpu_util"])
def test_a_clock_of_zero_while_busy_is_a_gap(key: str) -> None:
    observation = derive(reading({"tensor_active": 0.0, key: 0.5, "sm_clock": 0.0}))
    assert observation.gaps["sm_clock"] == Gap(GapReason.OUT_OF_RANGE, "0 Hz while busy")
    assert observation.gaps["ofu"] == observation.gaps["sm_clock"]


def test_a_clock_of_zero_while_idle_is_an_ofu_of_zero() -> None:
    values = derive(reading({"tensor_active": 0.0, "gpu_util": 0.0, "sm_clock": 0.0})).values
    assert (values["sm_clock"], values["ofu"], values["clock_factor"]) == (0, 0, 0)


def test_a_key_that_no_registry_has_is_a_gap() -> None:
    observation = derive(reading({"made_up": 1.0, "made_up:x": 1.0}))
    assert observation.gaps["made_up"].reason is GapReason.FAILED
    assert "made_up:x" not in observation.values


def test_a_key_that_is_both_value_and_gap_is_a_gap() -> None:
    observation = derive(reading(BUSY, gaps={"sm_clock": Gap(GapReason.STALE)}))
    assert "sm_clock" not in observation.values
    assert observation.gaps["ofu"].reason is GapReason.STALE


class TestMigInstance:
    INSTANCE = reading({"tensor_active": 0.5}, MIG, gaps={"sm_clock": Gap(GapReason.NOT_SUPPORTED)})

    def test_runs_on_the_clock_of_its_parent(self) -> None:
        observation = Deriver(DeriverSettings()).derive(self.INSTANCE, reading(BUSY))
        assert observation.values["sm_clock"] == 1.41e9
        assert observation.values["max_sm_clock"] == 1.98e9
        assert "sm_clock" not in observation.gaps
        assert observation.values["ofu"] == pytest.approx(0.5 * 1410 / 1830)

    def test_keeps_a_clock_of_its_own(self) -> None:
        own = reading({"tensor_active": 0.5, "sm_clock": 1e9}, MIG)
        assert Deriver(DeriverSettings()).derive(own, reading(BUSY)).values["sm_clock"] == 1e9

    def test_is_limited_by_its_share_of_the_sms(self) -> None:
        part = Deriver(DeriverSettings()).derive(self.INSTANCE, reading(BUSY)).values
        whole = derive(reading(BUSY)).values
        assert part["flop_limit"] == pytest.approx(whole["flop_limit"] / 4)
        assert part["flop_rate"] == pytest.approx(part["ofu"] * whole["flop_limit"] / 4)

    @pytest.mark.parametrize("share", [0.0, -1.0, 1.5, float("nan")])
    def test_with_an_impossible_share_has_no_flop_figures(self, share: float) -> None:
        read = reading(BUSY, replace(MIG, sm_share=share))
        observation = derive(read)
        assert observation.gaps["flop_rate"].reason is GapReason.OUT_OF_RANGE
        assert "ofu" in observation.values

    def test_takes_nothing_else_from_its_parent(self) -> None:
        parent = reading(BUSY | {"power": 700.0, "tensor_active": 0.1})
        observation = Deriver(DeriverSettings()).derive(self.INSTANCE, parent)
        assert "power" not in observation.values
        assert observation.values["tensor_active"] == 0.5

    def test_has_no_clock_when_its_parent_has_none(self) -> None:
        stale = reading({"sm_clock": float("nan")}, gaps={"max_sm_clock": Gap(GapReason.STALE)})
        observation = Deriver(DeriverSettings()).derive(self.INSTANCE, stale)
        assert observation.gaps["sm_clock"].reason is GapReason.OUT_OF_RANGE
        assert observation.gaps["ofu"] == observation.gaps["sm_clock"]

    def test_without_a_parents_reading_has_no_ofu(self) -> None:
        assert derive(self.INSTANCE).gaps["ofu"].reason is GapReason.NOT_SUPPORTED

    def test_is_not_judged_by_a_zero_clock_of_its_parent(self) -> None:
        idle_parent = reading({"sm_clock": 0.0})
        observation = Deriver(DeriverSettings()).derive(self.INSTANCE, idle_parent)
        assert observation.gaps["sm_clock"].detail == "0 Hz while busy"
