"""GPM on the real bindings: pairs, statuses for each metric, old drivers, permission."""

from __future__ import annotations

import ctypes

import pynvml
import pytest

from otel_ofu.model import GapReason
from otel_ofu.sources.nvml import gpm
from tests.sources.nvml.rig import (
    INVALID_ARGUMENT,
    NO_PERMISSION,
    NOT_SUPPORTED,
    TIMEOUT,
    UNKNOWN,
    Rig,
    uuid,
)

MMA_CYCLES = "mma_cycles_active"


def test_the_request_has_the_layout_of_the_bindings_and_room_for_every_version() -> None:
    theirs = pynvml.c_nvmlGpmMetricsGet_t
    ours = gpm.GpmMetricsStruct
    assert ctypes.sizeof(gpm.GpmMetric) == ctypes.sizeof(pynvml.c_nvmlGpmMetric_t) == 40
    assert ours.metrics.offset == theirs.metrics.offset
    assert (ours.older.offset, ours.newer.offset) == (theirs.sample1.offset, theirs.sample2.offset)
    assert ctypes.sizeof(ours) >= ctypes.sizeof(theirs)
    # nvmlReturn and value lie where the driver writes them, whatever the array's length.
    assert gpm.GpmMetric.code.offset == pynvml.c_nvmlGpmMetric_t.nvmlReturn.offset
    assert gpm.GpmMetric.value.offset == pynvml.c_nvmlGpmMetric_t.value.offset
    assert pynvml.NVML_GPM_METRICS_GET_VERSION == 1


def test_samples_closer_than_100_ms_give_a_gap_and_keep_the_older_sample(rig: Rig) -> None:
    rig.stub.set(gpm__5=30.0)
    rig.read()
    early = rig.gpu(after_s=0.06)
    assert early.gaps["tensor_active"].reason is GapReason.NOT_READY
    assert "60 ms" in early.gaps["tensor_active"].detail
    assert early.values["sm_clock"] == 1755e6
    reading = rig.gpu(after_s=0.04)
    assert reading.values["tensor_active"] == pytest.approx(0.3)
    assert reading.window.length_s == pytest.approx(0.1)


def test_a_metric_with_an_error_of_its_own_is_a_gap_and_the_others_are_values(rig: Rig) -> None:
    rig.stub.set(gpm__5=30.0, gpm__11__return=NOT_SUPPORTED, gpm__2__return=NO_PERMISSION)
    rig.read()
    reading = rig.gpu()
    assert reading.values["tensor_active"] == pytest.approx(0.3)
    assert reading.gaps["fp64_active"].reason is GapReason.NOT_SUPPORTED
    assert "GPM metric 11: Not Supported" in reading.gaps["fp64_active"].detail
    assert reading.gaps["sm_active"].reason is GapReason.NOT_PERMITTED
    assert set(reading.gaps) == {"fp64_active", "sm_active"}


@pytest.mark.parametrize("how", ["return", "skipped"])
def test_a_refused_metric_never_shows_the_value_of_another_gpu(rig: Rig, how: str) -> None:
    rig.stub.set(gpus=2, gpu0__gpm__5=90.0)
    rig.stub.set(**{f"gpu1__gpm__5__{how}": UNKNOWN})
    rig.read()
    readings = rig.read()
    assert readings[uuid(0)].values["tensor_active"] == pytest.approx(0.9)
    assert readings[uuid(1)].gaps["tensor_active"].reason is GapReason.FAILED


def test_nan_is_a_gap_and_not_zero(rig: Rig) -> None:
    rig.stub.set(gpm__5=30.0, refresh_ms=2000)
    rig.read()
    reading = rig.gpu(after_s=1)
    assert "tensor_active" not in reading.values
    assert reading.gaps["tensor_active"].reason is GapReason.NOT_READY
    assert "NaN" in reading.gaps["tensor_active"].detail
    assert rig.values(after_s=2)["tensor_active"] == pytest.approx(0.3)


@pytest.mark.parametrize("newest", [209, 97])
def test_an_old_driver_that_refuses_new_ids_one_by_one_gives_the_others(
    rig: Rig, newest: int
) -> None:
    rig.stub.set(gpm__5=30.0, gpm_max_id=newest)
    rig.read()
    reading = rig.gpu()
    assert reading.values["tensor_active"] == pytest.approx(0.3)
    assert MMA_CYCLES in reading.gaps


@pytest.mark.parametrize("newest", [209, 97])
def test_an_old_driver_that_refuses_the_whole_call_is_asked_for_less_and_remembered(
    rig: Rig, newest: int
) -> None:
    rig.stub.set(gpus=3, gpm__5=30.0, gpm_max_id=newest, gpm_strict=1)
    rig.read()
    reading = rig.gpu()
    assert reading.values["tensor_active"] == pytest.approx(0.3)
    assert reading.gaps[MMA_CYCLES].reason is GapReason.NOT_SUPPORTED
    assert "metric 250" in reading.gaps[MMA_CYCLES].detail
    assert rig.stub.calls("nvmlGpmMetricsGet") == 3 + 3  # one refusal for each GPU
    rig.read()
    assert rig.stub.calls("nvmlGpmMetricsGet") == 3 + 3 + 3


def test_a_refusal_of_every_request_is_not_taken_for_an_old_driver(rig: Rig) -> None:
    rig.stub.set(gpm__5=30.0, nvmlGpmMetricsGet=INVALID_ARGUMENT)
    rig.read()
    assert rig.gpu().gaps["tensor_active"].reason is GapReason.FAILED
    rig.stub.set(nvmlGpmMetricsGet=0)
    assert MMA_CYCLES in rig.values()


def test_a_failure_that_is_not_about_ids_is_not_answered_with_more_calls(rig: Rig) -> None:
    rig.stub.set(nvmlGpmMetricsGet=TIMEOUT)
    rig.read()
    assert rig.gpu().gaps["tensor_active"].detail == "nvmlGpmMetricsGet: Timeout (10)"
    assert rig.stub.calls("nvmlGpmMetricsGet") == 1


def test_a_gpu_without_gpm_gives_all_the_rest_and_says_what_to_use(rig: Rig) -> None:
    rig.stub.set(gpus=2, gpu0__architecture=7)
    rig.read()
    readings = list(rig.read().values())
    gap = readings[0].gaps["tensor_active"]
    assert gap.reason is GapReason.NOT_SUPPORTED
    assert gap.detail.startswith("this GPU has no GPM (Hopper and later, GeForce RTX 50); use DCGM")
    assert readings[0].values["sm_clock"] == 1755e6
    assert "tensor_active" in readings[1].values
    assert rig.stub.calls("nvmlGpmSampleGet") == 2


def test_a_driver_without_gpm_functions_says_so_with_its_version(rig: Rig) -> None:
    rig.stub.set(absent__nvmlGpmQueryDeviceSupport=1)
    rig.stub.text(driver="470.256.02")
    gap = rig.gpu().gaps["tensor_active"]
    assert gap.reason is GapReason.NOT_SUPPORTED
    assert "driver 470.256.02" in gap.detail


def test_a_fractional_device_that_says_yes_and_fails_is_asked_again_slowly(rig: Rig) -> None:
    rig.stub.set(gpm__5=30.0, nvmlGpmSampleGet=NOT_SUPPORTED)
    for _ in range(20):
        reading = rig.gpu()
        assert reading.gaps["tensor_active"].reason is GapReason.NOT_SUPPORTED
        assert "nvmlGpmSampleGet: Not Supported (3)" in reading.gaps["tensor_active"].detail
    assert rig.stub.calls("nvmlGpmSampleGet") == 1
    rig.stub.set(nvmlGpmSampleGet=0)
    rig.read(after_s=300)
    assert rig.values()["tensor_active"] == pytest.approx(0.3)


def test_permission_lost_is_told_with_its_remedy_and_regained_with_patience(rig: Rig) -> None:
    rig.stub.set(gpm__5=30.0)
    rig.read()
    rig.read()
    rig.stub.set(nvmlGpmSampleGet=NO_PERMISSION)
    reading = rig.gpu()
    assert reading.gaps["tensor_active"].reason is GapReason.NOT_PERMITTED
    assert "RmProfilingAdminOnly" in reading.gaps["tensor_active"].detail
    assert reading.values["power"] == pytest.approx(652.345)
    asked = rig.stub.calls("nvmlGpmSampleGet")
    for _ in range(99):
        assert rig.gpu().gaps["tensor_active"].reason is GapReason.NOT_PERMITTED
    assert rig.stub.calls("nvmlGpmSampleGet") - asked == 5  # after 30, 90, 210, 450 and 930 s
    rig.stub.set(nvmlGpmSampleGet=0)
    assert rig.gpu(after_s=600).gaps["tensor_active"].reason is GapReason.NOT_READY
    reading = rig.gpu()
    assert reading.values["tensor_active"] == pytest.approx(0.3)
    assert reading.window.length_s == 10  # nothing is said about the time without permission


def test_one_failed_sample_is_made_up_for_by_the_next_pair(rig: Rig) -> None:
    rig.stub.set(gpm__5=30.0)
    rig.read()
    rig.stub.set(nvmlGpmSampleGet=TIMEOUT)
    assert rig.gpu().gaps["tensor_active"].reason is GapReason.FAILED
    rig.stub.set(nvmlGpmSampleGet=0)
    reading = rig.gpu()
    assert reading.values["tensor_active"] == pytest.approx(0.3)
    assert reading.window.length_s == 20


def test_a_sample_that_cannot_be_had_is_a_gap(rig: Rig) -> None:
    rig.stub.set(nvmlGpmSampleAlloc=20)
    assert rig.gpu().gaps["tensor_active"].reason is GapReason.FAILED


def test_sample_memory_does_not_grow(rig: Rig) -> None:
    rig.stub.set(gpus=4)
    for _ in range(30):
        rig.read()
    assert rig.stub.live_samples == 8
    assert rig.stub.calls("nvmlGpmSampleAlloc") == 8
