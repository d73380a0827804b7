"""One process at a time: its place and the listed variables, remembered while it lives.

Enters: process ids. Leaves: a `Look` for each that is still there; what could not be seen goes to
`Troubles`. Nothing is remembered of a process that was not asked for in the last poll.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from otel_ofu.files.procfs import CgroupLine, Denied, Gone, ProcFs, Stat
from otel_ofu.jobs.cgroups import Place, place_of
from otel_ofu.jobs.neighbours import Neighbours, telling
from otel_ofu.model.log_once import Troubles

_CLOCK_TICKS = os.sysconf("SC_CLK_TCK")
_SLACK_S = 0.05
"""/proc/uptime and start times are both cut to 10 ms."""
_REMEDY = "run the agent as root or with CAP_SYS_PTRACE"


@dataclass(frozen=True, slots=True)
class Look:
    """What was seen of one process; `whole` when there is nothing left to see."""

    start_ticks: int
    env_start: int
    lines: tuple[CgroupLine, ...]
    place: Place
    environment: Mapping[str, str]
    whole: bool


class Watch:
    """Belongs to the thread that polls."""

    def __init__(
        self,
        procfs: ProcFs,
        neighbours: Neighbours,
        names: Collection[str],
        troubles: Troubles,
    ) -> None:
        self._procfs = procfs
        self._neighbours = neighbours
        self._names = frozenset(names)
        self._troubles = troubles
        self._known: dict[int, Look] = {}

    def looks(self, pids: Collection[int], listed_s: float | None) -> dict[int, Look]:
        """Of those that are still there. `listed_s`: uptime when the driver listed them."""
        self._neighbours.begin()
        found = {pid: look for pid in pids if (look := self._look(pid, listed_s))}
        self._known = found
        return found

    def _look(self, pid: int, listed_s: float | None) -> Look | None:
        try:
            stat = self._procfs.stat(pid)
            if listed_s is not None and stat.start_ticks / _CLOCK_TICKS > listed_s + _SLACK_S:
                self._troubles.note("pid_reused", "a process id was used again while we looked")
                return None
            look = self._seen(pid, stat)
            # One that took the id over in the meantime is another process.
            if self._procfs.stat(pid).start_ticks == stat.start_ticks:
                return look
            self._troubles.note("pid_reused", "a process id was used again while we looked")
        except Gone:
            self._note_gone()
        except Denied as error:
            words = f"processes on a GPU cannot be looked at: {error}; {_REMEDY}"
            self._troubles.note("process_not_readable", words)
        return None

    def _seen(self, pid: int, stat: Stat) -> Look:
        lines = self._procfs.cgroup(pid)
        known = self._known.get(pid)
        if known and (known.start_ticks != stat.start_ticks or known.lines != lines):
            known = None
        if known and (stat.ended or (known.whole and known.env_start == stat.env_start)):
            return known
        place = place_of(lines)
        if stat.ended:
            self._troubles.note("zombie", "a process on a GPU has ended and was not waited for")
            return Look(stat.start_ticks, stat.env_start, lines, place, {}, whole=False)
        values = self._own(pid)
        if values is not None:
            return Look(stat.start_ticks, stat.env_start, lines, place, values, whole=True)
        # Whom we asked last time may have ended since; what was learned of this process stays.
        borrowed = {
            **(known.environment if known else {}),
            **self._neighbours.environment(pid, place),
        }
        return Look(stat.start_ticks, stat.env_start, lines, place, borrowed, whole=False)

    def _own(self, pid: int) -> Mapping[str, str] | None:
        """None when it cannot be read, or was overwritten and says nothing."""
        try:
            environment = self._procfs.environment(pid, self._names)
        except Denied as error:
            words = f"environment of processes on a GPU not readable: {error}; {_REMEDY}"
            self._troubles.note("environment_not_readable", words)
            return None
        if environment.wiped:
            words = (
                "processes on a GPU have overwritten their environment (setproctitle); "
                "SPT_NOENV=1 in the job keeps it"
            )
            self._troubles.note("environment_wiped", words)
            return None
        return telling(environment)

    def _note_gone(self) -> None:
        if self._procfs.hides_processes():
            words = f"processes on a GPU are hidden (/proc is mounted with hidepid); {_REMEDY}"
            self._troubles.note("process_hidden", words)
        else:
            self._troubles.note("process_ended", "a process on a GPU ended while we looked")
