"""The NVIDIA GPUs on the PCI bus that are this node's, whether or not the driver lists them.

Enters: the PCI devices in sysfs, /proc/driver/nvidia, the device files. Leaves: addresses, with
what the kernel driver knows of each GPU.

A GPU that is handed to a virtual machine (vfio-pci) is not this node's, and one whose device file
is not there is hidden from this container: neither is listed.
Source: Documentation/ABI/testing/sysfs-bus-pci; README of the NVIDIA driver, /proc/driver/nvidia.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

NVIDIA = "0x10de"
DISPLAY_CLASSES = ("0x0300", "0x0302")
"""VGA and 3D controllers. Source: PCI Code and ID Assignment, base class 03h."""
_FACT = re.compile(r"^(Model|GPU UUID|Device Minor):\s*(\S.*?)\s*$", re.MULTILINE)
_UUID = re.compile(r"GPU-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
"""A GPU that did not start has question marks in its place."""
_MOST_BYTES = 4096  # a page: more than either file holds


@dataclass(frozen=True, slots=True)
class BusGpu:
    """`address` as NVML writes it (`00000000:1B:00.0`); `uuid` and `model` empty if not known."""

    address: str
    uuid: str = ""
    model: str = ""


@dataclass(frozen=True, slots=True)
class GpuPaths:
    """Where the kernel's file systems are; a test has its own."""

    proc: Path = Path("/proc")
    sys: Path = Path("/sys")
    dev: Path = Path("/dev")


def gpus_on_bus(paths: GpuPaths, without: Collection[str] = ()) -> list[BusGpu] | None:
    """By address; None where the driver is not loaded. Raises OSError without sysfs.

    `without`: addresses that are left out, and of which nothing is read.
    """
    if not (paths.proc / "driver/nvidia/gpus").is_dir():
        return None
    devices = sorted((paths.sys / "bus/pci/devices").iterdir(), key=lambda path: path.name)
    found = [_gpu(device, paths) for device in devices if nvml_address(device.name) not in without]
    return [gpu for gpu in found if gpu is not None]


def nvml_address(text: str) -> str:
    """`0000:1b:00.0` as NVML writes it; what has no such form stays as it is."""
    domain, _, rest = text.partition(":")
    try:
        return f"{int(domain, 16):08X}:{rest.upper()}"
    except ValueError:
        return text


def _gpu(device: Path, paths: GpuPaths) -> BusGpu | None:
    """None for what is no GPU of this node."""
    if _text(device / "vendor") != NVIDIA:
        return None
    if not _text(device / "class").startswith(DISPLAY_CLASSES) or (device / "physfn").exists():
        return None  # also a virtual function: NVML lists the GPU that it is of
    driver = device / "driver"
    if driver.exists() and driver.resolve().name != "nvidia":
        return None
    known = paths.proc / "driver/nvidia/gpus" / device.name / "information"
    facts = dict(_FACT.findall(_text(known)))
    minor = facts.get("Device Minor", "")
    if minor.isdecimal() and not (paths.dev / f"nvidia{minor}").exists():
        return None
    uuid = facts.get("GPU UUID", "")
    return BusGpu(
        nvml_address(device.name), uuid if _UUID.fullmatch(uuid) else "", facts.get("Model", "")
    )


def _text(path: Path) -> str:
    """Empty for a file that is not there: devices come and go."""
    try:
        with path.open("rb") as file:
            return file.read(_MOST_BYTES).decode("ascii", "replace").strip()
    except OSError:
        return ""
