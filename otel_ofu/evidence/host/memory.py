"""Memory of the node, in bytes. Enters: /proc/meminfo. Source: proc_meminfo(5)."""

from __future__ import annotations

import re

from otel_ofu.evidence.host.part import Values
from otel_ofu.files.procfs import ProcFs

_LINE = re.compile(rb"^(MemTotal|MemAvailable):\s+(\d+) kB$", re.MULTILINE)
_KIB = 1024


class Memory:
    """Used is what cannot be had without swapping: caches do not count."""

    keys = ("host_mem_used", "host_mem_available", "host_mem_util")

    def __init__(self, procfs: ProcFs) -> None:
        self._procfs = procfs

    def read(self, at_s: float) -> Values:
        del at_s
        found = {name: int(kib) * _KIB for name, kib in _LINE.findall(self._procfs.read("meminfo"))}
        total, available = found[b"MemTotal"], found[b"MemAvailable"]
        return {
            "host_mem_used": float(total - available),
            "host_mem_available": float(available),
            "host_mem_util": (total - available) / total,
        }
