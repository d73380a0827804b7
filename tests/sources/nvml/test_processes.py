"""Whose processes hold a GPU."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from otel_ofu.model.clock import VirtualClock
from otel_ofu.model.errors import SourceUnavailable
from otel_ofu.sources.nvml import GpuProcess, NvmlProcesses
from otel_ofu.sources.nvml.processes import LIST_S, RESCAN_S
from tests.sources.nvml.rig import NO_PERMISSION, Stub, mig_uuid, uuid


@pytest.fixture
def stub(stub_library: Path) -> Stub:
    return Stub(stub_library)


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock(1000.0)


@pytest.fixture
def listed(stub: Stub, stub_library: Path, clock: VirtualClock) -> Iterator[NvmlProcesses]:
    made = NvmlProcesses(str(stub_library), clock)
    yield made
    made.close()


def test_processes_are_listed(stub: Stub, listed: NvmlProcesses) -> None:
    stub.set(gpus=2, gpu0__processes=2)
    assert listed.processes() == (
        GpuProcess(uuid(0), 4242, None),
        GpuProcess(uuid(0), 4243, None),
    )


def test_processes_in_mig_mode_belong_to_the_instance(stub: Stub, listed: NvmlProcesses) -> None:
    stub.set(gpu0__mig=1, gpu0__instances=2, processes=1)
    assert listed.processes() == (
        GpuProcess(mig_uuid(0, 1), 4242, 1),
        GpuProcess(mig_uuid(0, 2), 4242, 2),
    )


def test_a_gpu_that_refuses_its_list_does_not_hide_the_others(
    stub: Stub, listed: NvmlProcesses, clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    stub.set(gpus=3, processes=1)
    stub.set(gpu0__nvmlDeviceGetComputeRunningProcesses_v3=NO_PERMISSION)
    for _ in range(3):
        assert {process.device_uuid for process in listed.processes()} == {uuid(1), uuid(2)}
        clock.advance(LIST_S)
    assert caplog.text.count("no processes of") == 1


def test_the_driver_is_asked_every_ten_seconds_at_most(
    stub: Stub, listed: NvmlProcesses, clock: VirtualClock
) -> None:
    stub.set(gpus=1, processes=1)
    assert len(listed.processes()) == 1
    stub.set(processes=3)
    clock.advance(LIST_S - 0.1)
    assert len(listed.processes()) == 1
    clock.advance(0.1)
    assert len(listed.processes()) == 3


def test_a_gpu_that_comes_later_is_found(
    stub: Stub, listed: NvmlProcesses, clock: VirtualClock
) -> None:
    stub.set(gpus=1, processes=1)
    listed.processes()
    stub.set(gpus=2)
    clock.advance(RESCAN_S)
    assert len(listed.processes()) == 2


def test_without_a_driver_it_is_unavailable_and_can_be_asked_again(clock: VirtualClock) -> None:
    absent = NvmlProcesses("/nonexistent/libnvidia-ml.so.1", clock)
    for _ in range(2):
        with pytest.raises(SourceUnavailable):
            absent.processes()
    absent.close()
