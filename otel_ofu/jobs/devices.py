"""The many spellings of a device id -> the UUID that readings have.

Enters: ids as device plug-ins, schedulers and drivers write them. Leaves: a UUID or None.
Sources: NVIDIA, AMD and GKE device plug-ins; NVIDIA's DRA driver; NVML.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from otel_ofu.model import Device

_REPLICA = re.compile(r"::\d+$")
_UUID = re.compile(r"(?:GPU|MIG)-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_OLD_MIG = re.compile(r"MIG-(GPU-[0-9a-f-]{36})/(\d+)/\d+")
_NODE = re.compile(r"nvidia(\d+)(?:/gi(\d+))?(?:/vgpu\d+)?")
_NUMBER = re.compile(r"(?:gpu-)?(\d+)(?:\.(\d+))?")
_PCI = re.compile(r"(?:[0-9A-Fa-f]{4,8}):([0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7])")


class DeviceIndex:
    """The devices of one poll. Without any, only ids that are UUIDs are recognised."""

    def __init__(self, devices: Iterable[Device] = ()) -> None:
        self._uuids: set[str] = set()
        self._whole: dict[str, str] = {}
        self._instances: dict[tuple[str, int], str] = {}
        for device in devices:
            self._uuids.add(device.uuid)
            if device.parent and device.mig_instance_id is not None:
                self._add_instance(device)
            elif not device.parent:
                self._add_whole(device)

    def uuid(self, text: str) -> str | None:
        """None for an id that no device here answers to."""
        id_ = _REPLICA.sub("", text)
        if id_ in self._uuids:
            return id_
        if old := _OLD_MIG.fullmatch(id_):
            return self.instance(old[1], int(old[2]))
        if pci := _PCI.fullmatch(id_):
            return self._whole.get(_pci(id_, pci))
        if node := _NODE.fullmatch(id_):
            return self._by_number(node)
        return self._foreign(id_)

    def numbered(self, text: str) -> str | None:
        """As `uuid`, and bare numbers: 3, 3.7 for an instance, gpu-3.

        Only for lists that hold nothing but GPUs: a number does not show what it numbers.
        """
        number = _NUMBER.fullmatch(text)
        return self._by_number(number) if number else self.uuid(text)

    def instance(self, parent: str, gpu_instance_id: int) -> str | None:
        return self._instances.get((parent, gpu_instance_id))

    def _by_number(self, found: re.Match[str]) -> str | None:
        whole = self._whole.get(str(int(found[1])))
        return self.instance(whole or "", int(found[2])) if found[2] else whole

    def _foreign(self, id_: str) -> str | None:
        """A UUID inside a longer name, as CDI devices have; any UUID while no device is known."""
        found = _UUID.search(id_)
        if found and (not self._uuids or found[0] in self._uuids):
            return found[0]
        return None

    def _add_whole(self, device: Device) -> None:
        if device.index is not None:
            self._whole[str(device.index)] = device.uuid
        if pci := _PCI.fullmatch(device.pci_address):
            self._whole[_pci(device.pci_address, pci)] = device.uuid

    def _add_instance(self, device: Device) -> None:
        self._instances[device.parent, device.mig_instance_id or 0] = device.uuid
        if device.index is not None:
            # A GPU in MIG mode may have no reading of its own; its instances know its number.
            self._whole.setdefault(str(device.index), device.parent)


def _pci(text: str, found: re.Match[str]) -> str:
    """The domain has four digits in some lists and eight in others."""
    return f"{int(text.partition(':')[0], 16):x}:{found[1].lower()}"
