"""Limits of the containers that the processes on the GPUs run in.

Enters: cgroup v2 folders of those processes and of what is above them. Leaves: the tightest of
each. Source: Documentation/admin-guide/cgroup-v2.rst.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

from otel_ofu.evidence.host.part import FIRST, Values
from otel_ofu.files.procfs import Denied, Gone, ProcFs, read_file
from otel_ofu.model import Gap, GapReason

_V2 = re.compile(rb"^0::(/[^\n]*)$", re.MULTILINE)
_PERIODS = re.compile(rb"^nr_periods (\d+)$", re.MULTILINE)
_THROTTLED = re.compile(rb"^nr_throttled (\d+)$", re.MULTILINE)
_INACTIVE = re.compile(rb"^inactive_file (\d+)$", re.MULTILINE)
_NO_LIMIT = Gap(GapReason.NOT_SUPPORTED, "no limit on the containers of the processes on a GPU")
_NO_PERIOD = Gap(GapReason.NOT_READY, "nothing ran in the container")


class Containers:
    """`pids`: the processes that hold a GPU."""

    keys = ("container_cpu_limit", "container_throttled", "container_mem_util")

    def __init__(self, procfs: ProcFs, sys_root: Path, pids: Callable[[], Collection[int]]) -> None:
        self._procfs = procfs
        self._root = f"{sys_root}/fs/cgroup"
        self._pids = pids
        self._before: dict[str, tuple[int, int]] = {}

    def read(self, at_s: float) -> Values:
        del at_s
        folders = self._folders()
        limits = {folder: cpus for folder in folders if (cpus := _cpus(folder)) is not None}
        used = [share for folder in folders if (share := _memory(folder)) is not None]
        return {
            "container_cpu_limit": min(limits.values()) if limits else _NO_LIMIT,
            "container_throttled": self._throttled(limits),
            "container_mem_util": max(used) if used else _NO_LIMIT,
        }

    def _folders(self) -> set[str]:
        """Those of the processes and all above, without the root, which has no limits."""
        found: set[str] = set()
        for path in {path for pid in self._pids() if (path := self._path(pid))}:
            parts = [part for part in path.split("/") if part]
            if ".." not in parts:
                found |= {"/".join((self._root, *parts[:n])) for n in range(1, len(parts) + 1)}
        return found

    def _path(self, pid: int) -> str:
        try:
            line = _V2.search(self._procfs.read(f"{pid}/cgroup"))
        except (Gone, Denied):
            return ""
        return line[1].decode("utf-8", "replace") if line else ""

    def _throttled(self, folders: Collection[str]) -> float | Gap:
        """The share of periods in which the most throttled one ran into its limit."""
        now = {folder: counts for folder in folders for counts in _periods(folder)}
        before, self._before = self._before, now
        if not now:
            return _NO_LIMIT
        both = [(before[folder], counts) for folder, counts in now.items() if folder in before]
        if not both:
            return FIRST
        shares = [(new[1] - old[1]) / (new[0] - old[0]) for old, new in both if new[0] > old[0]]
        return max(shares) if shares else _NO_PERIOD


def _text(path: str) -> bytes:
    """Empty where there is no such file."""
    try:
        return read_file(path)
    except (Gone, Denied):
        return b""


def _cpus(folder: str) -> float | None:
    """Processors that may be used; None without a limit."""
    words = _text(f"{folder}/cpu.max").split()
    return int(words[0]) / int(words[1]) if words and words[0] != b"max" else None


def _periods(folder: str) -> Iterator[tuple[int, int]]:
    text = _text(f"{folder}/cpu.stat")
    periods, throttled = _PERIODS.search(text), _THROTTLED.search(text)
    if periods and throttled:
        yield int(periods[1]), int(throttled[1])


def _memory(folder: str) -> float | None:
    """Share of the limit that cannot be given back at once; None without a limit."""
    most = _text(f"{folder}/memory.max").strip()
    if not most.isdigit() or not int(most):
        return None
    inactive = _INACTIVE.search(_text(f"{folder}/memory.stat"))
    held = int(_text(f"{folder}/memory.current")) - (int(inactive[1]) if inactive else 0)
    return max(0, held) / int(most)
