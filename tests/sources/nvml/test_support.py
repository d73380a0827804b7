"""What doctor shows."""

from __future__ import annotations

from tests.sources.nvml.rig import LOST, NO_PERMISSION, NOT_SUPPORTED, Rig, mig_uuid, uuid


def test_a_gpu_that_can_be_read_has_no_problem(rig: Rig) -> None:
    (support,) = rig.open().describe()
    assert support.device.uuid == uuid(0)
    assert (support.has_gpm, support.gpm_problem, support.instances) == (True, "", ())
    assert rig.stub.live_samples == 0


def test_each_gpu_says_for_itself_why_it_has_no_gpm(rig: Rig) -> None:
    rig.stub.set(gpus=4, gpu0__architecture=8)
    rig.stub.set(gpu1__nvmlGpmSampleGet=NOT_SUPPORTED, gpu2__nvmlGpmSampleGet=NO_PERMISSION)
    supports = rig.open().describe()
    assert [s.has_gpm for s in supports] == [False, False, False, True]
    assert "no GPM (Hopper and later" in supports[0].gpm_problem
    assert supports[1].gpm_problem == "nvmlGpmSampleGet: Not Supported (3)"
    assert "CAP_SYS_ADMIN" in supports[2].gpm_problem
    assert rig.stub.live_samples == 0


def test_a_lost_gpu_is_described_as_such(rig: Rig) -> None:
    source = rig.open()
    rig.stub.set(gpu0__lost=1)
    (support,) = source.describe()
    assert f"GPU is lost ({LOST})" in support.gpm_problem


def test_instances_are_described_with_their_gpu(rig: Rig) -> None:
    rig.stub.set(gpus=2, gpu0__mig=1, gpu0__instances=2)
    rig.stub.set(gpu1__nvmlDeviceGetMigMode=NO_PERMISSION)
    first, second = rig.open().describe()
    assert [device.uuid for device in first.instances] == [mig_uuid(0, 1), mig_uuid(0, 2)]
    assert second.instances == ()
