"""Who runs beside a process: its ancestors, and the members of its cgroup.

Enters: a process id and its `Place`. Leaves: listed variables of those in the same job or
container. A neighbour that cannot be seen is no trouble: the next one may be.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from itertools import islice
from pathlib import Path

from otel_ofu.files.procfs import Denied, Environment, Gone, ProcFs
from otel_ofu.jobs.cgroups import Place, place_of

MOST_ANCESTORS = 16
MOST_MEMBERS = 32
LONGEST_VALUE = 1024
"""Of what names a job; a longer one is none, and half of it would be another's."""


class Neighbours:
    """Asks each of them once a poll."""

    def __init__(self, procfs: ProcFs, cgroup_root: Path, names: Collection[str]) -> None:
        self._procfs = procfs
        self._cgroup_root = cgroup_root
        self._names = names
        self._asked: dict[int, Mapping[str, str]] = {}
        self._of_scope: dict[str, Mapping[str, str]] = {}

    def begin(self) -> None:
        """A new poll: everybody may have changed."""
        self._asked.clear()
        self._of_scope.clear()

    def environment(self, pid: int, place: Place) -> Mapping[str, str]:
        """The variables of the nearest ancestor that has some, else of a member; else none."""
        for ancestor in self._ancestors(pid, place):
            if values := self._values(ancestor):
                return values
        if place.scope not in self._of_scope:
            folders = [self._cgroup_root / folder for folder in place.folders]
            found = map(self.values_in, folders)
            self._of_scope[place.scope] = next((values for values in found if values), {})
        return self._of_scope[place.scope]

    def values_in(self, folder: Path) -> Mapping[str, str]:
        """The variables of the first member of a cgroup that has some."""
        return next((values for m in self.members(folder) if (values := self._values(m))), {})

    def members(self, folder: Path) -> Iterator[int]:
        """Few of them: in a large job all say the same."""
        try:
            text = (folder / "cgroup.procs").read_text("ascii")
        except (OSError, ValueError):
            return
        yield from islice((int(word) for word in text.split() if word.isdigit()), MOST_MEMBERS)

    def _ancestors(self, pid: int, place: Place) -> Iterator[int]:
        for _ in range(MOST_ANCESTORS):
            try:
                pid = self._procfs.stat(pid).parent
                if pid <= 1 or place_of(self._procfs.cgroup(pid)).scope != place.scope:
                    return
            except (Gone, Denied):
                return
            yield pid

    def _values(self, pid: int) -> Mapping[str, str]:
        if pid not in self._asked:
            try:
                self._asked[pid] = telling(self._procfs.environment(pid, self._names))
            except (Gone, Denied):
                self._asked[pid] = {}
        return self._asked[pid]


def telling(environment: Environment) -> dict[str, str]:
    """The variables that can name something: neither empty nor longer than any name."""
    found = environment.values.items()
    return {name: value for name, value in found if 0 < len(value) <= LONGEST_VALUE}
