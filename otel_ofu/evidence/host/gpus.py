"""How many NVIDIA GPUs the node has, and how many of them are read.

Enters: the PCI devices in sysfs, /proc/driver/nvidia, the device files. Leaves: two counts; a GPU
that never came up after a boot is in the first and not in the second.

A GPU that is handed to a virtual machine (vfio-pci) is not this node's, and one whose device file
is not there is hidden from this container: neither counts.
Source: Documentation/ABI/testing/sysfs-bus-pci; README of the NVIDIA driver, /proc/driver/nvidia.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from otel_ofu.evidence.host.node import Values
from otel_ofu.model import Gap, GapReason

NVIDIA = "0x10de"
DISPLAY_CLASSES = ("0x0300", "0x0302")
"""VGA and 3D controllers. Source: PCI Code and ID Assignment, base class 03h."""
_MINOR = re.compile(r"^Device Minor:\s*(\d{1,6})$", re.MULTILINE)
_MOST_BYTES = 4096  # a page: more than either file holds

NO_DRIVER = Gap(GapReason.NOT_SUPPORTED, "the NVIDIA kernel driver is not loaded")


class Gpus:
    """`read`: how many whole GPUs gave values in the last round; None where nobody reads any."""

    keys = ("gpus_on_bus", "gpus_read")

    def __init__(
        self, proc_root: Path, sys_root: Path, dev_root: Path, read: Callable[[], int | None]
    ) -> None:
        self._driver = proc_root / "driver/nvidia/gpus"
        self._devices = sys_root / "bus/pci/devices"
        self._dev_root = dev_root
        self._read = read

    def read(self) -> Values:
        read = self._read()
        if read is None or not self._driver.is_dir():
            return dict.fromkeys(self.keys, NO_DRIVER)
        return {"gpus_on_bus": float(self._on_bus()), "gpus_read": float(read)}

    def _on_bus(self) -> int:
        return sum(self._is_ours(device) for device in self._devices.iterdir())

    def _is_ours(self, device: Path) -> bool:
        if _text(device / "vendor") != NVIDIA:
            return False
        if not _text(device / "class").startswith(DISPLAY_CLASSES):
            return False
        driver = device / "driver"
        if driver.exists() and driver.resolve().name != "nvidia":
            return False
        minor = _MINOR.search(_text(self._driver / device.name / "information"))
        return minor is None or (self._dev_root / f"nvidia{minor[1]}").exists()


def _text(path: Path) -> str:
    """Empty for a file that is not there: devices come and go."""
    try:
        with path.open("rb") as file:
            return file.read(_MOST_BYTES).decode("ascii", "replace").strip()
    except OSError:
        return ""
