"""What a collector is; the node's processors, memory, disks and GPUs, and what waits for them.

Enters: /proc/stat, /proc/loadavg, /proc/pressure, /proc/meminfo, /proc/diskstats, /sys/block; the
GPUs on the PCI bus. Leaves: shares of all processors' time, pressure 0..1, bytes, counts. Bytes are
of the node's own disks: file systems of the network are not disks. A GPU that never came up after a
boot is on the bus and is not read.
Source: proc(5), proc_meminfo(5), Documentation/accounting/psi.rst,
Documentation/admin-guide/iostats.rst.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from otel_ofu.files.gpus import GpuPaths, gpus_on_bus
from otel_ofu.files.procfs import ProcessGoneError, ProcFs
from otel_ofu.model import Gap, GapReason

Values = Mapping[str, float | Gap]

FIRST = Gap(GapReason.NOT_READY, "needs a second read")


class HostPart(Protocol):
    """`read` gives each of `keys` at most; what is missing is a gap that the reader adds.

    It raises Gone, Denied, or ValueError, IndexError, KeyError for a file in another form.
    """

    @property
    def keys(self) -> tuple[str, ...]: ...

    def read(self) -> Values: ...


class GrowingTotals:
    """Sums over members that come and go: an interface that is gone takes nothing back.

    A member counts from the read after the one that first saw it.
    """

    def __init__(self) -> None:
        self._raw: dict[str, Mapping[str, int]] = {}
        self._sums: dict[str, float] = {}

    def add(self, key: str, members: Mapping[str, int]) -> float | Gap:
        """What all members counted since the first call; a gap at that one."""
        before = self._raw.get(key)
        self._raw[key] = members
        if before is None:
            self._sums[key] = 0.0
            return FIRST
        self._sums[key] += sum(grown(before, members).values())
        return self._sums[key]


def grown(before: Mapping[str, int], now: Mapping[str, int]) -> dict[str, int]:
    """What each member that was there before has counted since; one that restarted, from 0."""
    return {
        name: total - before[name] if total >= before[name] else total
        for name, total in now.items()
        if name in before
    }


# user, nice, system, idle, iowait, irq, softirq, steal; guests are part of user and nice.
_MODES: dict[str, tuple[int, ...]] = {
    "cpu_user": (0,),
    "cpu_nice": (1,),
    "cpu_system": (2,),
    "cpu_idle": (3,),
    "cpu_iowait": (4,),
    "cpu_interrupt": (5, 6),
    "cpu_steal": (7,),
}
_COUNTED = 8  # of _MODES: guests are part of user and nice
_NO_TIME = Gap(GapReason.NOT_READY, "no time has passed")


class Cpu:
    """Shares between two reads."""

    keys = (*_MODES, "cpu_count")

    def __init__(self, procfs: ProcFs) -> None:
        self._procfs = procfs
        self._before: Sequence[int] | None = None

    def read(self) -> Values:
        lines = self._procfs.read("stat").split(b"\n")
        if not lines[0].startswith(b"cpu "):
            raise ValueError("no line of all processors in /proc/stat")
        ticks = [int(word) for word in lines[0].split()[1 : _COUNTED + 1]]
        count = sum(line.startswith(b"cpu") for line in lines) - 1
        before, self._before = self._before, ticks
        return {**_shares(before, ticks), "cpu_count": float(count)}


def _shares(before: Sequence[int] | None, ticks: Sequence[int]) -> Values:
    if before is None:
        return dict.fromkeys(_MODES, FIRST)
    spent = [new - old for new, old in zip(ticks, before, strict=True)]
    total = sum(part for part in spent if part > 0)
    if not total:
        return dict.fromkeys(_MODES, _NO_TIME)
    # The kernel's count of a mode may go back; its share is then out of range, and a gap.
    return {key: sum(spent[index] for index in at) / total for key, at in _MODES.items()}


class RunQueue:
    """Threads that run or want to, at this instant."""

    keys = ("run_queue",)

    def __init__(self, procfs: ProcFs) -> None:
        self._procfs = procfs

    def read(self) -> Values:
        running = self._procfs.read("loadavg").split()[3].partition(b"/")[0]
        return {"run_queue": float(int(running))}


class Pressure:
    """Share of the last 10 s in which some, or all, threads waited for a resource."""

    resources = ("cpu", "memory", "io")
    keys = tuple(f"pressure_{r}_{scope}" for r in resources for scope in ("some", "full"))

    def __init__(self, procfs: ProcFs) -> None:
        self._procfs = procfs

    def read(self) -> Values:
        return {
            f"pressure_{resource}_{scope}": share
            for resource in self.resources
            for scope, share in self._of(resource).items()
        }

    def _of(self, resource: str) -> dict[str, float | Gap]:
        try:
            text = self._procfs.read(f"pressure/{resource}")
        except ProcessGoneError:
            off = Gap(GapReason.NOT_SUPPORTED, "the kernel does not measure pressure (psi=1)")
            return {"some": off, "full": off}
        parts = [line.split() for line in text.splitlines()]
        return {w[0].decode(): float(w[1].partition(b"=")[2]) / 100 for w in parts}


_LINE = re.compile(rb"^(MemTotal|MemAvailable):\s+(\d+) kB$", re.MULTILINE)
_KIB = 1024


class HostMemory:
    """Used is what cannot be had without swapping: caches do not count."""

    keys = ("host_mem_used", "host_mem_available", "host_mem_util")

    def __init__(self, procfs: ProcFs) -> None:
        self._procfs = procfs

    def read(self) -> Values:
        found = {name: int(kib) * _KIB for name, kib in _LINE.findall(self._procfs.read("meminfo"))}
        total, available = found[b"MemTotal"], found[b"MemAvailable"]
        return {
            "host_mem_used": float(total - available),
            "host_mem_available": float(available),
            "host_mem_util": (total - available) / total,
        }


_SECTOR_BYTES = 512
"""The kernel's, whatever the disk's."""
_NAME, _READ, _WRITTEN = 2, 5, 9


class Disks:
    """Whole devices alone: partitions, mirrors and loops would count twice."""

    keys = ("disk_read", "disk_write")

    def __init__(self, procfs: ProcFs, sys_root: Path) -> None:
        self._procfs = procfs
        self._block = f"{sys_root}/block"
        self._totals = GrowingTotals()
        self._is_disk: dict[str, bool] = {}

    def read(self) -> Values:
        rows = [line.split() for line in self._procfs.read("diskstats").splitlines()]
        disks = [(r[_NAME].decode(), r) for r in rows if self._counts(r[_NAME].decode())]
        if not disks:
            raise ProcessGoneError("no disk of its own")
        read = {name: int(row[_READ]) * _SECTOR_BYTES for name, row in disks}
        written = {name: int(row[_WRITTEN]) * _SECTOR_BYTES for name, row in disks}
        return {
            "disk_read": self._totals.add("disk_read", read),
            "disk_write": self._totals.add("disk_write", written),
        }

    def _counts(self, name: str) -> bool:
        if name not in self._is_disk:
            self._is_disk[name] = os.path.exists(f"{self._block}/{name}/device")  # noqa: PTH110
        return self._is_disk[name]


NO_DRIVER = Gap(GapReason.NOT_SUPPORTED, "the NVIDIA kernel driver is not loaded")


class Gpus:
    """`read`: how many whole GPUs gave values in the last round; None where nobody reads any."""

    keys = ("gpus_on_bus", "gpus_read")

    def __init__(self, paths: GpuPaths, read: Callable[[], int | None]) -> None:
        self._paths = paths
        self._read = read

    def read(self) -> Values:
        read = self._read()
        found = None if read is None else gpus_on_bus(self._paths)
        if read is None or found is None:
            return dict.fromkeys(self.keys, NO_DRIVER)
        return {"gpus_on_bus": float(len(found)), "gpus_read": float(read)}
