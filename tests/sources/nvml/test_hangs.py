"""GPUs that do not answer: each costs itself a thread and its values, and nobody else anything."""

from __future__ import annotations

import threading

import pytest

from otel_ofu.model import Device, GapReason, Reading
from otel_ofu.model.clock import SystemClock, VirtualClock
from otel_ofu.sources.nvml import NvmlProcesses, NvmlSource, SessionOptions
from otel_ofu.sources.nvml.clock_sampler import ClockSampler
from otel_ofu.sources.nvml.device_worker import DeviceWorker
from tests.sources.nvml.rig import Rig, Stub, reading_threads, uuid
from tests.waiting import wait_until

GPUS, HUNG = 16, (0, 3, 4, 15)
CLOCK, POWER = "nvmlDeviceGetClockInfo", "nvmlDeviceGetPowerUsage"


def hang(stub: Stub, value: int, call: str = "") -> None:
    stub.set(**{f"gpu{index}__hang{call and '__'}{call}": value for index in HUNG})


def release(stub: Stub, call: str = "") -> None:
    """Lets all calls return; their threads end."""
    hang(stub, 0, call)
    wait_until(lambda: not kept(), "the end of the threads")


def kept() -> list[threading.Thread]:
    return [thread for thread in reading_threads() if thread.name.startswith("nvml-gpu-")]


def silent(readings: dict[str, Reading]) -> set[str]:
    return {name for name, reading in readings.items() if not reading.values}


def test_gpus_that_hang_cost_themselves_alone_and_come_back(rig: Rig) -> None:
    rig.stub.set(gpus=GPUS, gpm__5=40.0)
    rig.read()
    hang(rig.stub, 1, POWER)
    readings = rig.read()
    assert silent(readings) == {uuid(index) for index in HUNG}
    assert readings[uuid(1)].values["tensor_active"] == pytest.approx(0.4)
    assert len(kept()) == rig.stub.hanging == len(HUNG)

    later = rig.read(after_s=10)
    gaps = later[uuid(3)].gaps
    assert set(gaps) >= set(later[uuid(1)].values)
    assert {(gap.reason, gap.detail) for gap in gaps.values()} == {
        (GapReason.FAILED, "no answer for 10 s")
    }
    assert later[uuid(3)].window.length_s == 10
    assert len(kept()) == rig.stub.hanging == len(HUNG)

    release(rig.stub, POWER)
    back = rig.gpu(3)
    assert back.values["power"] == pytest.approx(652.345)
    assert back.gaps["tensor_active"].reason is GapReason.NOT_READY  # its sample is of the hang
    again = rig.gpu(3)
    assert again.values["tensor_active"] == pytest.approx(0.4)
    assert again.window.length_s == 10


def test_gpus_that_hang_while_they_are_opened_are_troubles_and_the_others_are_read(
    rig: Rig,
) -> None:
    rig.stub.set(gpus=GPUS)
    hang(rig.stub, 1)
    readings = rig.read()
    assert {name for name in readings if readings[name].values} == {
        uuid(index) for index in range(GPUS) if index not in HUNG
    }
    assert rig.source is not None
    troubles = {each.target: each.detail for each in rig.source.troubles()}
    assert troubles == {f"GPU {i}": "cannot be opened: no answer" for i in HUNG}
    release(rig.stub)
    assert len(rig.read(after_s=60)) == GPUS


def test_a_gpu_that_hangs_in_a_rescan_is_kept_and_comes_back(rig: Rig) -> None:
    rig.stub.set(gpus=GPUS)
    rig.read()
    hang(rig.stub, 1, "nvmlDeviceGetName")
    assert silent(rig.read(after_s=60)) == {uuid(index) for index in HUNG}
    release(rig.stub, "nvmlDeviceGetName")
    assert not silent(rig.read(after_s=1))


def test_a_gpu_whose_support_cannot_be_found_out_has_no_gpm(rig: Rig) -> None:
    rig.stub.set(gpus=GPUS)
    source = rig.open()
    hang(rig.stub, 1)
    problems = [each.gpm_problem for each in source.describe()]
    assert [bool(problem) for problem in problems] == [i in HUNG for i in range(GPUS)]
    release(rig.stub)


def test_closing_does_not_wait_for_a_call_that_hangs(rig: Rig) -> None:
    rig.stub.set(gpus=GPUS)
    rig.read()
    hang(rig.stub, 1, POWER)
    rig.read()
    rig.close()
    assert rig.stub.references == 1  # ending the library under a running call would crash
    assert rig.stub.live_samples == 2 * len(HUNG)  # such a call may still write to its own
    release(rig.stub, POWER)
    rig.stub.reset()


def test_another_session_does_not_enter_a_gpu_that_keeps_a_thread(rig: Rig) -> None:
    rig.stub.set(gpus=GPUS, processes=1)
    rig.read()
    hang(rig.stub, 1, POWER)
    rig.read()
    another = NvmlSource(rig.stub.path, clock=VirtualClock(), options=SessionOptions(0.01))
    processes = NvmlProcesses(rig.stub.path, VirtualClock())
    assert len(another.read(0.0)) == GPUS - len(HUNG)
    assert len(processes.processes()) == GPUS - len(HUNG)
    assert rig.stub.hanging == len(HUNG)
    another.close()
    processes.close()
    release(rig.stub, POWER)


def test_a_clock_that_hangs_leaves_the_clocks_of_the_others_sampled(stub: Stub) -> None:
    stub.set(gpus=2, gpm__5=40.0)
    options = SessionOptions(0.01, lambda nvml: ClockSampler(nvml, short_s=0.02), deadline_s=0.05)
    source = NvmlSource(stub.path, clock=SystemClock(), options=options)
    source.read(0.0)
    stub.set(**{f"gpu0__hang__{CLOCK}": 1})
    wait_until(kept, "the thread that is left to the GPU")
    calls = stub.calls(CLOCK)
    wait_until(lambda: stub.calls(CLOCK) > calls + 3, "samples of the other GPU")
    readings = {reading.device.uuid: reading for reading in source.read(0.0)}
    assert not readings[uuid(0)].values
    assert stub.hanging == 1  # who reads did not enter it
    stub.set(**{f"gpu0__hang__{CLOCK}": 0})
    wait_until(lambda: not kept(), "the end of the thread")
    source.close()
    assert (stub.live_samples, stub.references, stub.misuse) == (0, 0, 0)


def test_a_device_that_another_thread_is_in_gives_no_answer() -> None:
    worker = DeviceWorker(VirtualClock(), deadline_s=0.02)
    lock = worker.lock(0)
    assert lock.take()
    found = worker.run({0: lambda: Device("a"), 1: lambda: Device("b")})
    assert (found.values, found.silent_s) == ({1: Device("b")}, {0: 0.0})
    lock.give_back()
    assert worker.run({0: lambda: Device("a")}).values == {0: Device("a")}
    assert worker.close()
