"""How much of a core the processes on the GPUs use, and their main threads alone.

Enters: /proc/PID/stat of each. Leaves: mean and maximum of shares of one core; above 1 for a
process with several busy threads.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Sequence

from otel_ofu.evidence.host.part import FIRST, Values
from otel_ofu.files.procfs import Denied, Gone, ProcFs, Stat
from otel_ofu.model import Gap, GapReason

_CLOCK_TICKS = os.sysconf("SC_CLK_TCK")
_NOBODY = Gap(GapReason.NOT_READY, "no process holds a GPU")

Rank = tuple[Stat, Stat]


class Ranks:
    """`pids`: the processes that hold a GPU."""

    keys = ("rank_cpu_mean", "rank_cpu_max", "rank_thread_mean", "rank_thread_max")

    def __init__(self, procfs: ProcFs, pids: Callable[[], Collection[int]]) -> None:
        self._procfs = procfs
        self._pids = pids
        self._before: dict[int, Rank] = {}
        self._read_at_s: float | None = None

    def read(self, at_s: float) -> Values:
        now = {pid: rank for pid in self._pids() if (rank := self._rank(pid)) is not None}
        before, self._before = self._before, now
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
        except (Gone, Denied):
            return None


def _is_same(before: Rank | None, now: Rank) -> bool:
    return before is not None and before[0].start_ticks == now[0].start_ticks


def _summed(shares: Sequence[float]) -> tuple[float, float]:
    return sum(shares) / len(shares), max(shares)
