"""How the processors spent their time, how many threads want one, and what waits.

Enters: /proc/stat, /proc/loadavg, /proc/pressure. Leaves: shares of all processors' time, pressure
0..1. Source: proc(5), Documentation/accounting/psi.rst.
"""

from __future__ import annotations

from collections.abc import Sequence

from otel_ofu.evidence.host.part import FIRST, Values
from otel_ofu.files.procfs import Gone, ProcFs
from otel_ofu.model import Gap, GapReason

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
_COUNTED = 8
_NO_TIME = Gap(GapReason.NOT_READY, "no time has passed")


class Cpu:
    """Shares between two reads."""

    keys = (*_MODES, "cpu_count")

    def __init__(self, procfs: ProcFs) -> None:
        self._procfs = procfs
        self._before: Sequence[int] | None = None

    def read(self, at_s: float) -> Values:
        del at_s  # the kernel counts time itself
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
    return {key: sum(spent[place] for place in at) / total for key, at in _MODES.items()}


class RunQueue:
    """Threads that run or want to, at this instant."""

    keys = ("run_queue",)

    def __init__(self, procfs: ProcFs) -> None:
        self._procfs = procfs

    def read(self, at_s: float) -> Values:
        del at_s
        running = self._procfs.read("loadavg").split()[3].partition(b"/")[0]
        return {"run_queue": float(int(running))}


class Pressure:
    """Share of the last 10 s in which some, or all, threads waited for a resource."""

    resources = ("cpu", "memory", "io")
    keys = tuple(f"pressure_{r}_{scope}" for r in resources for scope in ("some", "full"))

    def __init__(self, procfs: ProcFs) -> None:
        self._procfs = procfs

    def read(self, at_s: float) -> Values:
        del at_s
        return {
            f"pressure_{resource}_{scope}": share
            for resource in self.resources
            for scope, share in self._of(resource).items()
        }

    def _of(self, resource: str) -> dict[str, float | Gap]:
        try:
            text = self._procfs.read(f"pressure/{resource}")
        except Gone:
            off = Gap(GapReason.NOT_SUPPORTED, "the kernel does not measure pressure (psi=1)")
            return {"some": off, "full": off}
        words = [line.split() for line in text.splitlines()]
        return {w[0].decode(): float(w[1].partition(b"=")[2]) / 100 for w in words}
