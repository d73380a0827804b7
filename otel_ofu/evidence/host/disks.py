"""Bytes that the node's own disks read and wrote. File systems of the network are not disks.

Enters: /proc/diskstats, /sys/block. Source: Documentation/admin-guide/iostats.rst.
"""

from __future__ import annotations

import os
from pathlib import Path

from otel_ofu.evidence.host.part import Totals, Values
from otel_ofu.files.procfs import Gone, ProcFs

_SECTOR_BYTES = 512
"""The kernel's, whatever the disk's."""
_NAME, _READ, _WRITTEN = 2, 5, 9


class Disks:
    """Whole devices alone: partitions, mirrors and loops would count twice."""

    keys = ("disk_read", "disk_write")

    def __init__(self, procfs: ProcFs, sys_root: Path) -> None:
        self._procfs = procfs
        self._block = f"{sys_root}/block"
        self._totals = Totals()
        self._is_disk: dict[str, bool] = {}

    def read(self, at_s: float) -> Values:
        del at_s
        rows = [line.split() for line in self._procfs.read("diskstats").splitlines()]
        disks = [(r[_NAME].decode(), r) for r in rows if self._counts(r[_NAME].decode())]
        if not disks:
            raise Gone("no disk of its own")
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
