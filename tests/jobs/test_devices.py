from __future__ import annotations

import pytest

from otel_ofu.jobs.allocations import DeviceIndex
from otel_ofu.model import Device
from tests.jobs.tree import gpu

MIG = "MIG-11111111-2222-3333-4444-555555555555"
DEVICES = (
    Device(gpu(0), index=0, pci_address="00000000:1B:00.0"),
    Device(gpu(3), index=3, pci_address="00000001:1B:00.0"),
    Device(MIG, index=3, pci_address="00000001:1B:00.0", parent=gpu(3), mig_instance_id=9),
    Device("amd-7", index=7, vendor="amd", pci_address="0000:c1:00.0"),
)
INVENTORY = DeviceIndex(DEVICES)


@pytest.mark.parametrize(
    ("text", "uuid"),
    [
        (gpu(0), gpu(0)),
        (f"{gpu(3)}::2", gpu(3)),  # a time-sliced or MPS replica
        (MIG, MIG),
        (f"MIG-{gpu(3)}/9/0", MIG),  # as drivers before R470 wrote it
        (f"MIG-{gpu(3)}/8/0", None),
        ("nvidia0", gpu(0)),  # GKE
        ("nvidia3/gi9", MIG),
        ("nvidia0/vgpu1", gpu(0)),
        ("nvidia3/gi9/vgpu0", MIG),
        ("nvidia5", None),
        ("0000:1b:00.0", gpu(0)),
        ("0001:1b:00.0", gpu(3)),
        ("0000:c1:00.0", "amd-7"),
        ("amd-7", "amd-7"),
        ("amd-7::1", "amd-7"),
        (f"k8s.gpu.nvidia.com/claim=5-{gpu(0)}", gpu(0)),
        (gpu(99), None),
        ("0", None),
        ("", None),
        ("mlx5_0", None),
    ],
)
def test_an_id_in_any_spelling(text: str, uuid: str | None) -> None:
    assert INVENTORY.uuid(text) == uuid


@pytest.mark.parametrize(
    ("text", "uuid"),
    [("0", gpu(0)), ("3.9", MIG), ("3.1", None), ("gpu-3", gpu(3)), (gpu(0), gpu(0)), ("12", None)],
)
def test_numbers_where_all_are_gpus(text: str, uuid: str | None) -> None:
    assert INVENTORY.numbered(text) == uuid


def test_without_devices_a_uuid_is_believed_and_nothing_else() -> None:
    assert DeviceIndex().uuid(f"{gpu(1)}::0") == gpu(1)
    assert DeviceIndex().numbered("0") is None


def test_the_instances_know_the_number_of_a_gpu_that_has_no_reading() -> None:
    only_instance = DeviceIndex([DEVICES[2]])
    assert only_instance.uuid("nvidia3/gi9") == MIG
