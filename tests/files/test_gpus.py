"""What the kernel knows of the GPUs on the bus."""

from __future__ import annotations

from pathlib import Path

import pytest

from otel_ofu.files.gpus import BusGpu, GpuPaths, gpus_on_bus, nvml_address

ADDRESS, UUID = "0000:1b:00.0", "GPU-0a1b2c3d-0000-1111-2222-333344445555"


@pytest.fixture
def node(tmp_path: Path) -> GpuPaths:
    device = tmp_path / "sys/bus/pci/devices" / ADDRESS
    device.mkdir(parents=True)
    (device / "vendor").write_text("0x10de\n")
    (device / "class").write_text("0x030200\n")
    (tmp_path / "proc/driver/nvidia/gpus" / ADDRESS).mkdir(parents=True)
    return GpuPaths(tmp_path / "proc", tmp_path / "sys", tmp_path / "dev")


@pytest.mark.parametrize(
    ("uuid", "known"), [(UUID, UUID), ("GPU-????????-????-????-????-????????????", "")]
)
def test_a_gpu_has_the_uuid_that_the_kernel_driver_knows(
    node: GpuPaths, uuid: str, known: str
) -> None:
    text = f"Model: \t\t NVIDIA H100 80GB HBM3\nIRQ:   \t\t 26\nGPU UUID: \t {uuid}\n"
    (node.proc / "driver/nvidia/gpus" / ADDRESS / "information").write_text(text)
    assert gpus_on_bus(node) == [BusGpu("00000000:1B:00.0", known, "NVIDIA H100 80GB HBM3")]


def test_a_gpu_that_the_kernel_driver_does_not_know_has_its_address_alone(node: GpuPaths) -> None:
    assert gpus_on_bus(node) == [BusGpu("00000000:1B:00.0")]
    assert gpus_on_bus(node, {"00000000:1B:00.0"}) == []


def test_addresses_are_written_as_nvml_writes_them() -> None:
    assert nvml_address("10000:a1:00.0") == "00010000:A1:00.0"
    assert nvml_address("00000000:1B:00.0") == "00000000:1B:00.0"
    assert nvml_address("") == ""
