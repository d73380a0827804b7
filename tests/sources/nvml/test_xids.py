"""XIDs: counted for the right GPU, in a thread that ends at once."""

from __future__ import annotations

import threading

from otel_ofu.model import Reading
from otel_ofu.model.clock import VirtualClock
from otel_ofu.sources.nvml import NvmlSource, SessionOptions
from tests.sources.nvml.rig import NOT_SUPPORTED, UNKNOWN, Rig, Stub, uuid
from tests.waiting import HANGS_S, wait_until


def xids(reading: Reading) -> dict[str, float]:
    return {key: value for key, value in reading.values.items() if key.startswith("xid")}


def waiting() -> bool:
    return any(thread.name == "nvml-xid" for thread in threading.enumerate())


def test_xids_are_counted_by_code_for_the_gpu_that_had_them(rig: Rig) -> None:
    rig.stub.set(gpus=2)
    rig.read()
    for code in (31, 31, 79):
        rig.stub.xid(1, code)
    wait_until(lambda: sum(xids(rig.gpu(1)).values()) == 3, "three XIDs")
    readings = rig.read()
    assert xids(readings[uuid(1)]) == {"xid:31": 2, "xid:79": 1}
    assert xids(readings[uuid(0)]) == {}


def test_counts_outlive_the_loss_of_the_gpu(rig: Rig) -> None:
    rig.read()
    rig.stub.xid(0, 79)
    wait_until(lambda: xids(rig.gpu()) == {"xid:79": 1}, "the XID")
    rig.stub.set(gpu0__lost=1)
    assert xids(rig.gpu()) == {"xid:79": 1}
    rig.stub.set(gpu0__lost=0)
    assert xids(rig.gpu(after_s=60)) == {"xid:79": 1}


def test_a_gpu_without_events_has_no_key_and_no_gap(rig: Rig) -> None:
    rig.stub.set(gpus=2, gpu0__nvmlDeviceRegisterEvents=NOT_SUPPORTED)
    reading = rig.gpu(0)
    assert not [key for key in (*reading.values, *reading.gaps) if key.startswith("xid")]


def test_without_an_event_set_there_is_no_thread(rig: Rig) -> None:
    rig.stub.set(nvmlEventSetCreate=NOT_SUPPORTED)
    assert "sm_clock" in rig.values()
    assert not waiting()


def troubles(rig: Rig) -> list[str]:
    assert rig.source is not None
    return [f"{each.target}: {each.detail}" for each in rig.source.troubles()]


def refuse_to_wait(rig: Rig) -> None:
    """Until the thread has ended, whatever happens next."""
    rig.stub.set(nvmlEventSetWait_v2=UNKNOWN)
    rig.read(after_s=1)
    wait_until(lambda: not waiting(), "the end of the thread")


def test_a_driver_that_refuses_to_wait_is_a_trouble_and_asked_again_with_patience(rig: Rig) -> None:
    refuse_to_wait(rig)
    why = "XIDs: not counted: nvmlEventSetWait: Unknown Error (999)"
    assert troubles(rig) == [why]
    for _ in range(60):
        rig.read(after_s=1)
        wait_until(lambda: not waiting(), "the end of the thread")
    assert rig.stub.calls("nvmlEventSetCreate") == 1 + 2  # once more at once, and after 30 s
    assert troubles(rig) == [why]


def test_after_an_error_of_the_wait_xids_of_all_gpus_are_counted_again(rig: Rig) -> None:
    rig.stub.set(gpus=2)
    rig.read()
    rig.stub.xid(0, 31)
    wait_until(lambda: xids(rig.gpu(after_s=0)), "the XID")
    refuse_to_wait(rig)
    rig.stub.set(nvmlEventSetWait_v2=0)
    rig.read(after_s=60)
    wait_until(lambda: not troubles(rig), "a wait that works")
    for gpu in (0, 1):
        rig.stub.xid(gpu, 79)
    wait_until(lambda: xids(rig.gpu(1, after_s=0)) == {"xid:79": 1}, "the XID of the other GPU")
    wait_until(lambda: xids(rig.gpu(after_s=0)) == {"xid:31": 1, "xid:79": 1}, "both XIDs")
    assert rig.stub.misuse == 0


def test_an_xid_comes_by_itself_while_the_gpus_are_read(rig: Rig) -> None:
    rig.stub.set(gpus=2)
    rig.read()
    source = rig.source
    assert source is not None
    assert not source.events()
    rig.stub.set(gpu0__hang__nvmlDeviceGetPowerUsage=1)
    reader = threading.Thread(target=rig.read)
    reader.start()
    rig.stub.xid(1, 79)
    event = wait_until(source.events, "the XID")[0]
    assert (event.device.uuid, event.values, event.gaps) == (uuid(1), {"xid:79": 1}, {})
    assert event.window.length_s == 0
    assert not source.events()
    rig.stub.set(gpu0__hang__nvmlDeviceGetPowerUsage=0)
    reader.join(HANGS_S)
    assert xids(rig.gpu(1)) == {"xid:79": 1}


def test_a_driver_that_hangs_in_the_wait_does_not_hold_close(stub: Stub) -> None:
    stub.set(hang__nvmlEventSetWait_v2=1)
    source = NvmlSource(stub.path, clock=VirtualClock(), options=SessionOptions(0.01))
    source.open()
    wait_until(lambda: stub.calls("nvmlEventSetWait_v2") == 1, "the first wait")
    source.close()
    left_open = stub.references
    stub.set(hang__nvmlEventSetWait_v2=0)
    wait_until(lambda: not waiting(), "the end of the thread")
    assert left_open == 1  # shutting the library under a running call would crash
    assert stub.live_samples == stub.misuse == 0


def test_close_ends_the_thread(rig: Rig) -> None:
    rig.read()
    assert waiting()
    rig.close()
    assert not waiting()
