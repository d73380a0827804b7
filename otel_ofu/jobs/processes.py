"""One process at a time: its cgroup and the listed variables, remembered while it lives.

Enters: process ids. Leaves: a `ProcessSnapshot` for each that is still there; what could not be
read is logged once and counted. Where the process itself shows nothing, its ancestors and
the members of its cgroup do. A process that was not in the last poll is forgotten.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from otel_ofu.files.procfs import (
    REMEDY,
    WIPED,
    AccessDeniedError,
    CgroupLine,
    Environment,
    ProcessGoneError,
    ProcessStat,
    ProcFs,
)
from otel_ofu.jobs.cgroups import Cgroup, cgroup_of
from otel_ofu.model.log_once import CountedLogOnce

MOST_ANCESTORS = 16
MOST_MEMBERS = 32
"""Starting values: a launcher starts a rank through a few shells, and in a large job all have the
same variables."""

LONGEST_VALUE = 1024
"""Of what names a job, in characters; a longer value is not used, and never cut. Starting value."""

_CLOCK_TICKS = os.sysconf("SC_CLK_TCK")
_SLACK_S = 0.05
"""/proc/uptime and start times are both cut to 10 ms."""
PID_REUSED = "a process id was reused during the poll"


class Neighbours:
    """The ancestors of a process and the members of its cgroup, each read once a poll."""

    def __init__(self, procfs: ProcFs, cgroup_root: Path, names: Collection[str]) -> None:
        self._procfs = procfs
        self._cgroup_root = cgroup_root
        self._names = names
        self._read: dict[int, Mapping[str, str]] = {}
        self._of_scope: dict[str, Mapping[str, str]] = {}

    def begin(self) -> None:
        """A new poll: every process may have changed."""
        self._read.clear()
        self._of_scope.clear()

    def environment(self, pid: int, cgroup: Cgroup) -> Mapping[str, str]:
        """The variables of the nearest ancestor that has some, else of a member; else none."""
        for ancestor in self._ancestors(pid, cgroup):
            if values := self._values(ancestor):
                return values
        if cgroup.scope not in self._of_scope:
            folders = [self._cgroup_root / folder for folder in cgroup.folders]
            found = map(self.values_in, folders)
            self._of_scope[cgroup.scope] = next((values for values in found if values), {})
        return self._of_scope[cgroup.scope]

    def values_in(self, folder: Path) -> Mapping[str, str]:
        """The variables of the first member of a cgroup that has some."""
        return next((values for m in self.members(folder) if (values := self._values(m))), {})

    def members(self, folder: Path) -> Iterator[int]:
        """Few of them: in a large job all have the same."""
        try:
            text = (folder / "cgroup.procs").read_text("ascii")
        except (OSError, ValueError):
            return
        yield from islice((int(word) for word in text.split() if word.isdigit()), MOST_MEMBERS)

    def _ancestors(self, pid: int, cgroup: Cgroup) -> Iterator[int]:
        for _ in range(MOST_ANCESTORS):
            try:
                pid = self._procfs.stat(pid).parent
                if pid <= 1 or cgroup_of(self._procfs.cgroup(pid)).scope != cgroup.scope:
                    return
            except (ProcessGoneError, AccessDeniedError):
                return
            yield pid

    def _values(self, pid: int) -> Mapping[str, str]:
        if pid not in self._read:
            try:
                self._read[pid] = usable_variables(self._procfs.environment(pid, self._names))
            except (ProcessGoneError, AccessDeniedError):
                self._read[pid] = {}
        return self._read[pid]


def usable_variables(environment: Environment) -> dict[str, str]:
    """The variables that can name something: neither empty nor longer than any name."""
    found = environment.values.items()
    return {name: value for name, value in found if 0 < len(value) <= LONGEST_VALUE}


@dataclass(frozen=True, slots=True)
class ProcessSnapshot:
    """What was read of one process; `whole` when there is nothing left to read."""

    start_ticks: int
    env_start: int
    lines: tuple[CgroupLine, ...]
    cgroup: Cgroup
    environment: Mapping[str, str]
    whole: bool


class ProcessReader:
    """Belongs to the thread that polls."""

    def __init__(
        self,
        procfs: ProcFs,
        neighbours: Neighbours,
        names: Collection[str],
        troubles: CountedLogOnce,
    ) -> None:
        self._procfs = procfs
        self._neighbours = neighbours
        self._names = frozenset(names)
        self._troubles = troubles
        self._known: dict[int, ProcessSnapshot] = {}

    def successor(self, neighbours: Neighbours, troubles: CountedLogOnce) -> ProcessReader:
        """For a thread that takes over from one that hangs, with what is remembered."""
        made = ProcessReader(self._procfs, neighbours, self._names, troubles)
        made._known = dict(self._known)
        return made

    def begin(self, pids: Collection[int]) -> None:
        """A new poll, of these processes: the others are forgotten."""
        self._neighbours.begin()
        self._known = {pid: known for pid, known in self._known.items() if pid in pids}

    def read(self, pid: int, listed_s: float | None) -> ProcessSnapshot | None:
        """None if it is gone or not readable. `listed_s`: uptime when the driver listed it."""
        snapshot = self._checked(pid, listed_s)
        if snapshot is None:
            self._known.pop(pid, None)
        else:
            self._known[pid] = snapshot
        return snapshot

    def _checked(self, pid: int, listed_s: float | None) -> ProcessSnapshot | None:
        try:
            stat = self._procfs.stat(pid)
            if listed_s is not None and stat.start_ticks / _CLOCK_TICKS > listed_s + _SLACK_S:
                self._troubles.note("pid_reused", PID_REUSED)
                return None
            snapshot = self._snapshot(pid, stat)
            # One that took the id over in the meantime is another process.
            if self._procfs.stat(pid).start_ticks == stat.start_ticks:
                return snapshot
            self._troubles.note("pid_reused", PID_REUSED)
        except ProcessGoneError:
            self._note_gone()
        except AccessDeniedError as error:
            text = f"processes on a GPU are not readable: {error}; {REMEDY}"
            self._troubles.note("process_not_readable", text)
        return None

    def _snapshot(self, pid: int, stat: ProcessStat) -> ProcessSnapshot:
        lines = self._procfs.cgroup(pid)
        known = self._known.get(pid)
        if known and (known.start_ticks != stat.start_ticks or known.lines != lines):
            known = None
        if known and (stat.ended or (known.whole and known.env_start == stat.env_start)):
            return known
        cgroup = cgroup_of(lines)
        if stat.ended:
            self._troubles.note("zombie", "a process on a GPU has ended and was not waited for")
            return ProcessSnapshot(stat.start_ticks, stat.env_start, lines, cgroup, {}, whole=False)
        values = self._own(pid)
        if values is not None:
            return ProcessSnapshot(
                stat.start_ticks, stat.env_start, lines, cgroup, values, whole=True
            )
        # The neighbour of the last poll may have ended; what was learned of this process stays.
        borrowed = {
            **(known.environment if known else {}),
            **self._neighbours.environment(pid, cgroup),
        }
        return ProcessSnapshot(
            stat.start_ticks, stat.env_start, lines, cgroup, borrowed, whole=False
        )

    def _own(self, pid: int) -> Mapping[str, str] | None:
        """None when it cannot be read, or was overwritten."""
        try:
            environment = self._procfs.environment(pid, self._names)
        except AccessDeniedError as error:
            text = f"environment of processes on a GPU not readable: {error}; {REMEDY}"
            self._troubles.note("environment_not_readable", text)
            return None
        if environment.wiped:
            self._troubles.note("environment_wiped", WIPED)
            return None
        return usable_variables(environment)

    def _note_gone(self) -> None:
        if self._procfs.hides_processes():
            text = f"processes on a GPU are hidden (/proc is mounted with hidepid); {REMEDY}"
            self._troubles.note("process_hidden", text)
        else:
            self._troubles.note("process_ended", "a process on a GPU ended during the poll")
