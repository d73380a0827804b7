"""The GPUs on the bus that are this node's, beside those that are read."""

from __future__ import annotations

from pathlib import Path

import pytest

from otel_ofu.evidence.host.node import NO_DRIVER, Gpus
from otel_ofu.files.gpus import GpuPaths


class Node:
    """/sys, /proc and /dev of a node, in a folder."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.read: int | None = 0
        self.gpus = Gpus(GpuPaths(root / "proc", root / "sys", root / "dev"), lambda: self.read)
        (root / "sys/bus/pci/devices").mkdir(parents=True)
        (root / "dev").mkdir()

    def load_driver(self) -> None:
        (self.root / "proc/driver/nvidia/gpus").mkdir(parents=True)

    def add(
        self,
        address: str,
        *,
        vendor: str = "0x10de",
        kind: str = "0x030200",
        driver: str = "nvidia",
        minor: int | None = None,
    ) -> None:
        device = self.root / "sys/bus/pci/devices" / address
        device.mkdir()
        (device / "vendor").write_text(f"{vendor}\n")
        (device / "class").write_text(f"{kind}\n")
        if driver:
            folder = self.root / "sys/bus/pci/drivers" / driver
            folder.mkdir(parents=True, exist_ok=True)
            (device / "driver").symlink_to(folder)
        if minor is not None:
            known = self.root / "proc/driver/nvidia/gpus" / address
            known.mkdir()
            text = f"Model: \t NVIDIA H100\nIRQ:   \t 26\nDevice Minor: \t {minor}\n"
            (known / "information").write_text(text)

    def show(self, minor: int) -> None:
        (self.root / f"dev/nvidia{minor}").touch()


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def test_gpus_on_the_bus_are_counted_beside_those_that_are_read(node: Node) -> None:
    node.load_driver()
    for minor in range(8):
        node.add(f"0000:{minor:02x}:00.0", minor=minor)
        node.show(minor)
    node.read = 7
    assert node.gpus.read() == {"gpus_on_bus": 8, "gpus_read": 7}


def test_a_gpu_that_the_driver_could_not_start_is_on_the_bus(node: Node) -> None:
    node.load_driver()
    node.add("0000:1b:00.0", driver="")
    assert node.gpus.read()["gpus_on_bus"] == 1


@pytest.mark.parametrize(
    "device",
    [
        {"driver": "vfio-pci"},  # of a virtual machine
        {"kind": "0x068000"},  # an NVSwitch
        {"kind": "0x040300"},  # the sound of a graphics card
        {"vendor": "0x1002"},
    ],
)
def test_other_devices_do_not_count(node: Node, device: dict[str, str]) -> None:
    node.load_driver()
    node.add("0000:1b:00.0", **device)  # type: ignore[arg-type]
    assert node.gpus.read()["gpus_on_bus"] == 0


def test_a_virtual_function_is_no_gpu_of_its_own(node: Node) -> None:
    node.load_driver()
    node.add("0000:1b:00.0")
    node.add("0000:1b:00.4")
    (node.root / "sys/bus/pci/devices/0000:1b:00.4/physfn").symlink_to("../0000:1b:00.0")
    assert node.gpus.read()["gpus_on_bus"] == 1


def test_a_gpu_that_is_hidden_from_the_container_does_not_count(node: Node) -> None:
    node.load_driver()
    node.add("0000:1b:00.0", minor=0)
    node.add("0000:1c:00.0", minor=1)
    node.show(1)
    assert node.gpus.read()["gpus_on_bus"] == 1


def test_without_the_driver_nothing_is_known(node: Node) -> None:
    node.add("0000:1b:00.0", driver="")
    assert node.gpus.read() == {"gpus_on_bus": NO_DRIVER, "gpus_read": NO_DRIVER}


def test_an_agent_that_reads_no_gpus_of_its_own_misses_none(node: Node) -> None:
    node.load_driver()
    node.add("0000:1b:00.0")
    node.read = None
    assert node.gpus.read()["gpus_on_bus"] == NO_DRIVER
