"""All that one process shows: what flags are judged on.

Enters: a process id. Leaves: `ProcessEvidence`; None in place of what could not be read. What
cannot change while a process runs its program is read once. Its ancestors: how they were started,
and the listed variables of the nearest; ranks of one launcher have the same, which are read once a
scan.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from otel_ofu.evidence.flags.catalogue import FlagCatalogue
from otel_ofu.evidence.flags.files import Conf, JsonConf, NcclConf
from otel_ofu.files.procfs import (
    REMEDY,
    WIPED,
    AccessDeniedError,
    ProcessGoneError,
    ProcessStat,
    ProcFs,
)
from otel_ofu.model.log_once import CountedLogOnce

MOST_ANCESTORS = 16  # starting value: a launcher starts a rank through a few shells


@dataclass(frozen=True, slots=True)
class Ancestor:
    """One of them; `group` is its cgroup, equal for processes that were started together."""

    pid: int
    parent: int
    arguments: tuple[str, ...]
    group: bytes


class Lineage:
    """Of one scan."""

    def __init__(self, procfs: ProcFs, names: Collection[str]) -> None:
        self._procfs = procfs
        self._names = names
        self._known: dict[int, Ancestor | None] = {}
        self._variables: dict[int, Mapping[str, str]] = {}

    def ancestors(self, pid: int) -> tuple[Ancestor, ...]:
        """The nearest first, up to the first process of the namespace, which is left out."""
        return tuple(self._climb(pid))

    def environment(self, pid: int, ancestors: Collection[Ancestor]) -> Mapping[str, str]:
        """The variables of the nearest ancestor of the same cgroup that has some."""
        own = self._ancestor(pid)
        for ancestor in ancestors:
            if own is None or ancestor.group != own.group:
                break
            if values := self._of(ancestor.pid):
                return values
        return {}

    def _climb(self, pid: int) -> Iterator[Ancestor]:
        child = self._ancestor(pid)
        for _ in range(MOST_ANCESTORS):
            if child is None or child.parent <= 1:
                return
            child = self._ancestor(child.parent)
            if child is not None:
                yield child

    def _ancestor(self, pid: int) -> Ancestor | None:
        if pid not in self._known:
            self._known[pid] = self._read(pid)
        return self._known[pid]

    def _read(self, pid: int) -> Ancestor | None:
        try:
            parent = self._procfs.stat(pid).parent
            group = self._procfs.read(f"{pid}/cgroup")
            return Ancestor(pid, parent, self._procfs.arguments(pid), group)
        except (ProcessGoneError, AccessDeniedError):
            return None

    def _of(self, pid: int) -> Mapping[str, str]:
        if pid not in self._variables:
            try:
                found = self._procfs.environment(pid, self._names)
                self._variables[pid] = {} if found.wiped else found.values
            except (ProcessGoneError, AccessDeniedError):
                self._variables[pid] = {}
        return self._variables[pid]


MOST_BYTES_MAPS = 16 * 2**20
MAPS_EVERY = 20
"""Scans between two reads of the libraries of a process: the list is long, and changes early.
Starting value."""

_TRACER = re.compile(rb"^TracerPid:\s+(\d+)", re.MULTILINE)
_CPUS = re.compile(rb"^Cpus_allowed_list:\s+([0-9,-]+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class ProcessEvidence:
    """`environment` is None when it could not be read or was overwritten; `why` is which.

    `inherited` is then what an ancestor has. `lineage`: command lines of the ancestors.
    `libraries`: those of the listed ones that are mapped. `status`: fields as numbers.
    """

    stat: ProcessStat
    environment: Mapping[str, str] | None
    why: str
    inherited: Mapping[str, str]
    arguments: Sequence[str]
    lineage: Sequence[Sequence[str]]
    conf: Conf
    deepspeed: Mapping[str, str] | None
    libraries: frozenset[str] | None
    status: Mapping[str, str]
    wiped: bool = False
    """Whether the environment was overwritten."""


class EvidenceReader:
    """Reads processes. Belongs to the thread that scans."""

    def __init__(self, procfs: ProcFs, catalogue: FlagCatalogue, troubles: CountedLogOnce) -> None:
        self._procfs = procfs
        self._catalogue = catalogue
        self._troubles = troubles
        self._conf = NcclConf(procfs, catalogue.conf_names)
        self._deepspeed = JsonConf(procfs, catalogue.deepspeed_keys)
        self._known: dict[int, ProcessEvidence] = {}
        self._reads: Counter[int] = Counter()

    def read(self, pid: int, lineage: Lineage) -> ProcessEvidence | None:
        """None when the process has ended. AccessDeniedError if nothing of it can be read."""
        try:
            stat = self._procfs.stat(pid)
            if stat.ended:
                return None
            known = self._known.get(pid)
            if known is not None and known.environment is not None and _is_same(known.stat, stat):
                seen = self._again(pid, known)
            else:
                seen = self._anew(pid, stat, lineage)
            # One that took the id over in the meantime is another process.
            if not _is_same(self._procfs.stat(pid), stat):
                return None
        except ProcessGoneError:
            return None
        self._known[pid] = seen
        return seen

    def forget_others(self, pids: set[int]) -> None:
        """Keeps what is known of these processes alone."""
        for pid in [pid for pid in self._known if pid not in pids]:
            del self._known[pid], self._reads[pid]

    def _anew(self, pid: int, stat: ProcessStat, lineage: Lineage) -> ProcessEvidence:
        self._reads[pid] = 0
        environment, why, wiped = self._environment(pid)
        ancestors = lineage.ancestors(pid)
        arguments = self._procfs.arguments(pid)
        return ProcessEvidence(
            stat=stat,
            environment=environment,
            why=why,
            inherited={} if environment is not None else lineage.environment(pid, ancestors),
            arguments=arguments,
            lineage=tuple(ancestor.arguments for ancestor in ancestors),
            conf=self._conf.read(pid, environment),
            deepspeed=self._deepspeed.read(pid, arguments),
            libraries=self._libraries(pid),
            status=self._status(pid),
            wiped=wiped,
        )

    def _again(self, pid: int, known: ProcessEvidence) -> ProcessEvidence:
        """Debuggers come and go, libraries are loaded late; the rest stays.

        The very same value when nothing changed.
        """
        reads = self._reads[pid] = self._reads[pid] + 1
        is_due = reads == 1 or reads % MAPS_EVERY == 0
        libraries = self._libraries(pid) if is_due else known.libraries
        status = self._status(pid)
        if (libraries, status) == (known.libraries, known.status):
            return known
        return replace(known, libraries=libraries, status=status)

    def _environment(self, pid: int) -> tuple[Mapping[str, str] | None, str, bool]:
        try:
            found = self._procfs.environment(pid, self._catalogue.variables)
        except AccessDeniedError as error:
            why = f"environment of processes on a GPU not readable ({error}); {REMEDY}"
            self._troubles.note("environment_not_readable", why)
            return None, why, False
        if found.wiped:
            self._troubles.note("environment_wiped", WIPED)
            return None, WIPED, True
        return found.values, "", False

    def _libraries(self, pid: int) -> frozenset[str] | None:
        try:
            raw = self._procfs.read(f"{pid}/maps", MOST_BYTES_MAPS)
        except AccessDeniedError:
            return (
                None  # mostly for want of the permission that the environment needs: reported there
            )
        return frozenset(
            name for name in self._catalogue.libraries if _is_mapped(raw, name.encode())
        )

    def _status(self, pid: int) -> dict[str, str]:
        raw = self._procfs.read(f"{pid}/status")
        tracer, cpus = _TRACER.search(raw), _CPUS.search(raw)
        found = {"TracerPid": tracer[1].decode()} if tracer else {}
        return found | ({"Cpus_allowed_list": str(_count(cpus[1]))} if cpus else {})


def _is_same(one: ProcessStat, other: ProcessStat) -> bool:
    """Whether it is the same process, running the same program."""
    return (one.start_ticks, one.env_start) == (other.start_ticks, other.env_start)


def _is_mapped(maps: bytes, name: bytes) -> bool:
    """Whether the last part of a mapped path holds the name."""
    at = maps.find(name)
    while at >= 0:
        end = maps.find(b"\n", at)
        end = len(maps) if end < 0 else end
        line = maps[maps.rfind(b"\n", 0, at) + 1 : end]
        if b"/" in line and name in line.rpartition(b"/")[2]:
            return True
        at = maps.find(name, end)
    return False


def _count(cpus: bytes) -> int:
    """How many are in `0-3,8`."""
    ranges = (part.partition(b"-") for part in cpus.split(b",") if part)
    return sum(int(last or first) - int(first) + 1 for first, _, last in ranges if first)
