"""Calls that fail, GPUs that are lost, drivers that go away, calls that do not return."""

from __future__ import annotations

import pytest

from otel_ofu.model import GapReason
from otel_ofu.model.errors import SourceError, SourceUnavailable
from tests.sources.nvml.rig import (
    LOST,
    NO_PERMISSION,
    NOT_SUPPORTED,
    TIMEOUT,
    UNINITIALIZED,
    UNKNOWN,
    Rig,
    uuid,
)


def test_a_call_that_is_not_supported_is_a_gap_and_is_not_made_again(rig: Rig) -> None:
    rig.stub.set(nvmlDeviceGetTotalEnergyConsumption=NOT_SUPPORTED)
    for _ in range(5):
        reading = rig.gpu()
        assert reading.gaps["energy"].reason is GapReason.NOT_SUPPORTED
        assert reading.values["power"] == pytest.approx(652.345)
    assert rig.stub.calls("nvmlDeviceGetTotalEnergyConsumption") == 1


def test_what_is_not_supported_is_tried_again_after_opening_again(rig: Rig) -> None:
    rig.stub.set(nvmlDeviceGetTotalEnergyConsumption=NOT_SUPPORTED)
    rig.read()
    rig.close()
    rig.stub.set(nvmlDeviceGetTotalEnergyConsumption=0)
    assert "energy" in rig.values()


def test_support_is_remembered_for_each_gpu_alone(rig: Rig) -> None:
    rig.stub.set(gpus=2, gpu0__nvmlDeviceGetPowerUsage=NOT_SUPPORTED)
    rig.read()
    assert "power" in rig.read()[uuid(1)].values
    assert rig.stub.calls("nvmlDeviceGetPowerUsage") == 1 + 2


def test_a_memory_sensor_that_is_missing_is_a_gap_though_the_call_succeeds(rig: Rig) -> None:
    rig.stub.set(mem_temperature_return=NOT_SUPPORTED)
    assert rig.gpu().gaps["mem_temperature"].reason is GapReason.NOT_SUPPORTED


def test_older_drivers_are_asked_by_the_older_names(rig: Rig) -> None:
    rig.stub.set(clock_reasons=4, absent__nvmlDeviceGetCurrentClocksEventReasons=1)
    rig.stub.set(absent__nvmlDeviceGetTemperatureV=1, absent__nvmlDeviceGetMemoryInfo_v2=1)
    for _ in range(2):
        values = rig.values()
        assert values["throttled:sw_power_cap"] == 1
        assert values["temperature"] == 61
        assert values["mem_used"] == 62.5e9  # with what the driver reserves
    assert rig.stub.calls("nvmlDeviceGetTemperatureV") == 1


def test_a_call_that_fails_is_made_again_and_from_the_third_time_on_with_patience(
    rig: Rig,
) -> None:
    rig.stub.set(nvmlDeviceGetPowerUsage=UNKNOWN)
    for _ in range(6):
        assert rig.gpu(after_s=1).gaps["power"].reason is GapReason.FAILED
    assert rig.stub.calls("nvmlDeviceGetPowerUsage") == 3
    rig.stub.set(nvmlDeviceGetPowerUsage=0)
    assert "power" in rig.values(after_s=30)


def test_a_timeout_costs_one_value_once(rig: Rig) -> None:
    rig.stub.set(nvmlDeviceGetPowerUsage=TIMEOUT)
    reading = rig.gpu()
    assert reading.gaps["power"].reason is GapReason.FAILED
    assert reading.gaps["power"].detail == "nvmlDeviceGetPowerUsage: Timeout (10)"
    rig.stub.set(nvmlDeviceGetPowerUsage=0)
    assert "power" in rig.values()


def test_a_lost_gpu_becomes_gaps_and_the_others_go_on(rig: Rig) -> None:
    rig.stub.set(gpus=3, gpm__5=30.0)
    rig.read()
    before = rig.read()[uuid(1)]
    rig.stub.set(gpu1__lost=1)
    readings = rig.read()
    lost = readings[uuid(1)]
    assert lost.values == {}
    assert set(lost.gaps) >= set(before.values)
    assert {gap.reason for gap in lost.gaps.values()} == {GapReason.FAILED}
    assert "GPU is lost" in lost.gaps["tensor_active"].detail
    assert readings[uuid(0)].gaps == readings[uuid(2)].gaps == {}


def test_a_gpu_lost_in_the_middle_of_a_read_leaves_no_half_reading(rig: Rig) -> None:
    rig.stub.set(gpus=2, gpu0__nvmlDeviceGetPowerUsage=LOST)
    readings = rig.read()
    assert rig.stub.calls("nvmlDeviceGetClockInfo") > 2  # what came before the loss was read
    assert readings[uuid(0)].values == {}
    assert "power" in readings[uuid(1)].values


def test_a_lost_gpu_is_not_asked_until_the_next_look_round(rig: Rig) -> None:
    rig.stub.set(gpu0__lost=1, gpus=2)
    rig.read()  # opened without it: it cannot even be named
    rig.stub.set(gpu0__lost=0)
    rig.read(after_s=60)
    rig.stub.set(gpu0__lost=1)
    rig.read(after_s=1)
    asked = rig.stub.calls("nvmlGpmSampleGet")
    rig.read(after_s=1)
    assert rig.stub.calls("nvmlGpmSampleGet") == asked + 1  # of the other GPU


def test_a_gpu_that_was_reset_comes_back(rig: Rig) -> None:
    rig.stub.set(gpus=2, gpm__5=30.0)
    rig.read()
    rig.stub.set(gpu0__lost=1)
    rig.read()
    rig.stub.set(gpu0__lost=0)
    assert rig.gpu(after_s=60).gaps["tensor_active"].reason is GapReason.NOT_READY
    assert rig.values()["tensor_active"] == pytest.approx(0.3)


def test_a_gpu_that_the_driver_does_not_list_any_more_stays_visible_as_gaps(rig: Rig) -> None:
    rig.stub.set(gpus=2)
    rig.read()
    rig.stub.set(gpus=1)
    readings = rig.read(after_s=60)
    assert readings[uuid(1)].values == {}
    assert readings[uuid(1)].gaps["power"].reason is GapReason.FAILED
    rig.stub.set(gpus=2)
    assert "power" in rig.read(after_s=60)[uuid(1)].values


def test_a_gpu_that_cannot_be_looked_at_for_a_moment_goes_on(rig: Rig) -> None:
    rig.stub.set(gpus=2, gpm__5=30.0)
    rig.read()
    rig.stub.set(gpu1__nvmlDeviceGetName=TIMEOUT)
    readings = rig.read(after_s=60)
    assert readings[uuid(1)].values["tensor_active"] == pytest.approx(0.3)
    assert readings[uuid(1)].window.length_s == 60


def test_the_last_gpu_lost_is_gaps_too(rig: Rig) -> None:
    rig.read()
    rig.stub.set(gpu0__lost=1, nvmlDeviceGetHandleByIndex_v2=LOST)
    rig.read()
    assert rig.gpu(after_s=60).gaps["power"].reason is GapReason.FAILED


@pytest.mark.parametrize("code", [UNINITIALIZED, 9, 18])
def test_a_driver_that_went_away_ends_the_session(rig: Rig, code: int) -> None:
    rig.read()
    rig.stub.set(nvmlDeviceGetPowerUsage=code)
    with pytest.raises(SourceError, match="nvmlDeviceGetPowerUsage") as error:
        rig.read()
    assert not isinstance(error.value, SourceUnavailable)
    rig.close()
    rig.stub.set(nvmlDeviceGetPowerUsage=0)
    assert "power" in rig.values()


def test_a_driver_that_goes_away_while_it_is_opened_leaves_nothing_open(rig: Rig) -> None:
    rig.stub.set(nvmlDeviceGetUUID=UNINITIALIZED)
    with pytest.raises(SourceError, match="has to be opened again"):
        rig.open()
    assert rig.stub.references == 0


def test_permission_for_one_call_is_asked_for_with_patience(rig: Rig) -> None:
    rig.stub.set(nvmlDeviceGetPowerUsage=NO_PERMISSION)
    for _ in range(10):
        assert rig.gpu(after_s=3).gaps["power"].reason is GapReason.NOT_PERMITTED
    assert rig.stub.calls("nvmlDeviceGetPowerUsage") == 1
    rig.stub.set(nvmlDeviceGetPowerUsage=0)
    assert "power" in rig.values(after_s=30)
