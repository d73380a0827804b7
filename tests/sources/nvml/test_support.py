"""What doctor shows, and whose processes hold a GPU."""

from __future__ import annotations

from otel_ofu.sources.nvml import GpuProcess
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


def test_processes_are_listed(rig: Rig) -> None:
    rig.stub.set(gpus=2, gpu0__processes=2)
    assert rig.open().processes() == (
        GpuProcess(uuid(0), 4242, None),
        GpuProcess(uuid(0), 4243, None),
    )


def test_processes_in_mig_mode_belong_to_the_instance(rig: Rig) -> None:
    rig.stub.set(gpu0__mig=1, gpu0__instances=2, processes=1)
    assert rig.open().processes() == (
        GpuProcess(mig_uuid(0, 1), 4242, 1),
        GpuProcess(mig_uuid(0, 2), 4242, 2),
    )


def test_a_gpu_that_refuses_its_list_does_not_hide_the_others(rig: Rig) -> None:
    rig.stub.set(gpus=3, processes=1)
    rig.stub.set(gpu0__nvmlDeviceGetComputeRunningProcesses_v3=NO_PERMISSION)
    source = rig.open()
    rig.stub.set(gpu1__lost=1)
    assert [process.device_uuid for process in source.processes()] == [uuid(2)]
