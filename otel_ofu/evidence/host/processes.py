"""The processes on the GPUs: how much of a core they use, and the limits of their containers.

Enters: /proc/PID/stat of each, cgroup v2 folders of those processes and of what is above them.
Leaves: mean and maximum of shares of one core, above 1 for a process with several busy threads; the
tightest of each limit. Source: Documentation/admin-guide/cgroup-v2.rst.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path

from otel_ofu.evidence.host.node import FIRST, Values
from otel_ofu.files.procfs import (
    AccessDeniedError,
    ProcessGoneError,
    ProcessStat,
    ProcFs,
    read_file,
)
from otel_ofu.model import Gap, GapReason
from otel_ofu.model.clock import Clock

_CLOCK_TICKS = os.sysconf("SC_CLK_TCK")
_NOBODY = Gap(GapReason.NOT_READY, "no process holds a GPU")

Rank = tuple[ProcessStat, ProcessStat]


class Ranks:
    """`pids`: the processes that hold a GPU."""

    keys = ("rank_cpu_mean", "rank_cpu_max", "rank_thread_mean", "rank_thread_max")

    def __init__(self, procfs: ProcFs, clock: Clock, pids: Callable[[], Collection[int]]) -> None:
        self._procfs = procfs
        self._clock = clock
        self._pids = pids
        self._before: dict[int, Rank] = {}
        self._read_at_s: float | None = None

    def read(self) -> Values:
        now = {pid: rank for pid in self._pids() if (rank := self._rank(pid)) is not None}
        before, self._before = self._before, now
        at_s = self._clock.monotonic_s()
        since_s, self._read_at_s = self._read_at_s, at_s
        if not now:
            return dict.fromkeys(self.keys, _NOBODY)
        both = [(before[pid], rank) for pid, rank in now.items() if _is_same(before.get(pid), rank)]
        if since_s is None or at_s <= since_s or not both:
            return dict.fromkeys(self.keys, FIRST)
        ticks = (at_s - since_s) * _CLOCK_TICKS
        whole = [(rank[0].cpu_ticks - old[0].cpu_ticks) / ticks for old, rank in both]
        main = [(rank[1].cpu_ticks - old[1].cpu_ticks) / ticks for old, rank in both]
        return dict(zip(self.keys, (*_summed(whole), *_summed(main)), strict=True))

    def _rank(self, pid: int) -> Rank | None:
        try:
            return self._procfs.stat(pid), self._procfs.stat(pid, thread=pid)
        except (ProcessGoneError, AccessDeniedError):
            return None


def _is_same(before: Rank | None, now: Rank) -> bool:
    return before is not None and before[0].start_ticks == now[0].start_ticks


def _summed(shares: Sequence[float]) -> tuple[float, float]:
    return sum(shares) / len(shares), max(shares)


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

    def read(self) -> Values:
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
        except (ProcessGoneError, AccessDeniedError):
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
    except (ProcessGoneError, AccessDeniedError):
        return b""


def _cpus(folder: str) -> float | None:
    """Processors that may be used; None without a limit."""
    parts = _text(f"{folder}/cpu.max").split()
    return int(parts[0]) / int(parts[1]) if parts and parts[0] != b"max" else None


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
