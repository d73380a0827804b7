"""The ancestors of a process: how they were started, and the listed variables of the nearest.

Enters: a process id. Leaves: command lines and variables; an ancestor that cannot be seen is left
out. Ranks of one launcher have the same ancestors: each is looked at once a scan.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from otel_ofu.files.procfs import Denied, Gone, ProcFs

MOST_ANCESTORS = 16


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
            self._known[pid] = self._look(pid)
        return self._known[pid]

    def _look(self, pid: int) -> Ancestor | None:
        try:
            parent = self._procfs.stat(pid).parent
            group = self._procfs.read(f"{pid}/cgroup")
            return Ancestor(pid, parent, self._procfs.arguments(pid), group)
        except (Gone, Denied):
            return None

    def _of(self, pid: int) -> Mapping[str, str]:
        if pid not in self._variables:
            try:
                found = self._procfs.environment(pid, self._names)
                self._variables[pid] = {} if found.wiped else found.values
            except (Gone, Denied):
                self._variables[pid] = {}
        return self._variables[pid]
