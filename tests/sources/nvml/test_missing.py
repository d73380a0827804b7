"""GPUs that were lost before the agent started: on the bus, and not opened by the driver."""

from __future__ import annotations

from otel_ofu.app.sampler import no_ofu
from otel_ofu.derive import Deriver, DeriverSettings
from otel_ofu.files.gpus import BusGpu
from otel_ofu.model import GapReason, Reading
from tests.sources.nvml.rig import LOST, Rig, address, uuid

MODEL = "NVIDIA H100 80GB HBM3"


def gaps(reading: Reading) -> set[tuple[GapReason, str]]:
    return {(gap.reason, gap.detail) for gap in reading.gaps.values()}


def bus(*lost: int, known: str = "") -> list[BusGpu]:
    return [BusGpu(address(i), known if i in lost else uuid(i), MODEL) for i in range(3)]


def test_a_gpu_whose_handle_cannot_be_opened_is_a_gap_with_the_drivers_words(rig: Rig) -> None:
    rig.stub.set(gpus=3, gpu1__nvmlDeviceGetHandleByIndex_v2=LOST)
    rig.bus = bus(1)
    rig.read()
    readings = rig.read()
    lost = readings[address(1)]
    assert not lost.values
    assert set(lost.gaps) >= set(readings[uuid(0)].values)
    assert gaps(lost) == {(GapReason.FAILED, "cannot be opened: GPU is lost (15)")}
    assert (lost.device.index, lost.device.model) == (1, MODEL)
    assert lost.device.pci_address == address(1)
    assert lost.window.length_s == 10


def test_the_kernel_drivers_uuid_is_its_identity_where_there_is_one(rig: Rig) -> None:
    rig.stub.set(gpus=3, gpu1__lost=1)
    rig.bus = bus(1, known=uuid(1))
    assert not rig.gpu(1).values
    rig.stub.set(gpu1__lost=0)
    assert "power" in rig.gpu(1, after_s=60).values


def test_a_gpu_that_the_driver_does_not_list_is_a_gap_until_it_is_opened(rig: Rig) -> None:
    rig.stub.set(gpus=2)
    rig.bus = bus(2)
    lost = rig.read()[address(2)]
    assert gaps(lost) == {
        (GapReason.FAILED, "on the PCI bus, and not listed by the driver; see dmesg")
    }
    assert lost.device.index is None
    rig.stub.set(gpus=3)
    assert set(rig.read(after_s=60)) == {uuid(index) for index in range(3)}


def test_which_of_several_is_which_is_left_open(rig: Rig) -> None:
    rig.stub.set(gpus=2, gpu1__lost=1)
    rig.bus = bus(1, 2)
    readings = rig.read()
    words = "not listed, or cannot be opened: GPU 1: GPU is lost (15)"
    assert gaps(readings[address(1)]) == gaps(readings[address(2)]) == {(GapReason.FAILED, words)}


def test_a_gpu_that_is_lost_later_keeps_its_uuid(rig: Rig) -> None:
    rig.stub.set(gpus=3)
    rig.bus = bus()
    rig.read()
    rig.stub.set(gpu1__lost=1, gpu1__nvmlDeviceGetHandleByIndex_v2=LOST)
    assert set(rig.read(after_s=60)) == {uuid(index) for index in range(3)}


def test_a_gpu_that_is_missing_has_no_ofu_and_says_why(rig: Rig) -> None:
    rig.stub.set(gpus=2)
    rig.bus = bus(2)
    observation = Deriver(DeriverSettings()).derive(rig.read()[address(2)])
    assert observation.entity.attributes["hw.id"] == address(2)
    assert observation.entity.attributes["ofu.gpu.sku"] == "h100-sxm5"
    assert observation.values["ofu_gap:failed"] == 1
    (trouble,) = no_ofu([observation])
    assert trouble.target == address(2)
    assert "not listed by the driver" in trouble.detail
