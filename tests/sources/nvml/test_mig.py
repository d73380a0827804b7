"""MIG: each instance is a device of its own beside its parent."""

from __future__ import annotations

import pytest

from otel_ofu.model import GapReason
from tests.sources.nvml.rig import INVALID_ARGUMENT, LOST, NO_PERMISSION, Rig, mig_uuid, uuid


@pytest.fixture
def mig(rig: Rig) -> Rig:
    rig.stub.set(gpu0__mig=1, gpu0__instances=3, gpm__5=20.0)
    rig.stub.set(gpu0__gi1__gpm__5=80.0, gpu0__gi2__gpm__5=0.0, gpu0__gi3__gpm__5=40.0)
    return rig


def test_each_instance_and_the_parent_have_their_own_values(mig: Rig) -> None:
    mig.read()
    readings = mig.read()
    active = {u: r.values["tensor_active"] for u, r in readings.items()}
    assert active == pytest.approx(
        {uuid(0): 0.2, mig_uuid(0, 1): 0.8, mig_uuid(0, 2): 0.0, mig_uuid(0, 3): 0.4}
    )


def test_an_instance_knows_its_parent_its_share_and_its_profile(mig: Rig) -> None:
    device = mig.read()[mig_uuid(0, 2)].device
    assert (device.parent, device.mig_instance_id, device.index) == (uuid(0), 2, 0)
    assert device.sm_share == pytest.approx(16 / 132)
    assert (device.mig_profile, device.model) == ("1g.10gb", "NVIDIA H100 80GB HBM3")


def test_the_share_falls_back_on_slices_where_the_driver_does_not_tell_the_cores(mig: Rig) -> None:
    mig.stub.set(absent__nvmlDeviceGetNumGpuCores=1)
    assert mig.read()[mig_uuid(0, 2)].device.sm_share == pytest.approx(1 / 7)


def test_only_what_an_instance_has_for_itself_is_asked_of_it(mig: Rig) -> None:
    reading = mig.read()[mig_uuid(0, 1)]
    assert reading.values["mem_used"] == 62e9
    assert "sm_clock" not in reading.values
    assert "sm_clock" not in reading.gaps
    assert mig.stub.calls("nvmlDeviceGetClockInfo") == 2


def test_utilization_that_mig_forbids_is_a_gap_of_the_parent(mig: Rig) -> None:
    assert mig.gpu().gaps["gpu_util"].reason is GapReason.NOT_SUPPORTED


def test_a_hole_in_the_list_hides_none_behind_it(mig: Rig) -> None:
    mig.stub.set(gpu0__mig1__hole=1)
    assert set(mig.read()) == {uuid(0), mig_uuid(0, 1), mig_uuid(0, 3)}


def test_no_instance_means_no_call_for_one(rig: Rig) -> None:
    rig.stub.set(gpu0__mig=1, gpu0__instances=0)
    rig.read()
    assert set(rig.read()) == {uuid(0)}
    assert rig.stub.calls("nvmlGpmMigSampleGet") == 0


def test_compute_instances_that_share_a_gpu_instance_are_sampled_singly(mig: Rig) -> None:
    mig.stub.set(gpu0__mig1__gi=1, gpu0__mig1__ci=1)
    mig.read()
    readings = mig.read()
    assert {mig_uuid(0, 1, 0), mig_uuid(0, 1, 1), mig_uuid(0, 3)} < set(readings)
    assert mig.stub.calls("nvmlGpmMigSampleGet") == 2  # only the instance that is alone
    assert mig.stub.calls("nvmlGpmSampleGet") == 2 * 3


def test_one_instance_that_fails_leaves_the_others(mig: Rig) -> None:
    mig.stub.set(gpu0__gi2__gpm__5__return=INVALID_ARGUMENT)
    mig.read()
    readings = mig.read()
    assert readings[mig_uuid(0, 2)].gaps["tensor_active"].reason is GapReason.FAILED
    assert "tensor_active" in readings[mig_uuid(0, 1)].values


def test_instances_that_come_and_go_are_noticed_within_a_minute(mig: Rig) -> None:
    mig.read()
    mig.read()
    mig.stub.set(gpu0__instances=1)
    mig.read()
    assert set(mig.read(after_s=60)) == {uuid(0), mig_uuid(0, 1)}
    mig.stub.set(gpu0__instances=2)
    assert set(mig.read(after_s=60)) == {uuid(0), mig_uuid(0, 1), mig_uuid(0, 2)}
    assert mig.read()[mig_uuid(0, 1)].values["tensor_active"] == pytest.approx(0.8)


def test_mig_switched_off_gives_the_gpu_its_utilization_back(mig: Rig) -> None:
    mig.read()
    mig.stub.set(gpu0__mig=0)
    readings = mig.read(after_s=60)
    assert set(readings) == {uuid(0)}
    assert readings[uuid(0)].values["gpu_util"] == pytest.approx(0.97)


def test_a_container_that_may_not_ask_for_mig_reads_the_gpu(rig: Rig) -> None:
    rig.stub.set(nvmlDeviceGetMigMode=NO_PERMISSION)
    rig.read()
    assert "tensor_active" in rig.values()


def test_instances_that_cannot_be_looked_at_do_not_hide_their_gpu(mig: Rig) -> None:
    mig.stub.set(nvmlDeviceGetGpuInstanceId=INVALID_ARGUMENT)
    assert set(mig.read()) == {uuid(0)}
    mig.stub.set(nvmlDeviceGetGpuInstanceId=0)
    assert len(mig.read(after_s=60)) == 4


def test_instances_that_cannot_be_looked_at_for_a_moment_go_on(mig: Rig) -> None:
    mig.read()
    mig.stub.set(nvmlDeviceGetGpuInstanceId=INVALID_ARGUMENT)
    readings = mig.read(after_s=60)
    assert readings[mig_uuid(0, 1)].values["tensor_active"] == pytest.approx(0.8)


def test_a_lost_parent_takes_its_instances_with_it_as_gaps(mig: Rig) -> None:
    mig.stub.set(gpus=2)
    mig.read()
    mig.stub.set(gpu0__lost=1)
    readings = mig.read()
    assert readings[mig_uuid(0, 1)].values == {}
    assert readings[mig_uuid(0, 1)].gaps["tensor_active"].detail.endswith(f"({LOST})")
    assert "tensor_active" in readings[uuid(1)].values
