"""/proc as values: who a process is, where it runs, and the few variables that were asked for.

Enters: a process id. Leaves: `Stat`, cgroup lines, `Environment`; `Gone` when the process ended in
the meantime, `Denied` when this user may not look. Source: proc(5).
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

MOST_BYTES = 8 * 2**20
"""More than the kernel lets an environment be (6 MiB)."""
LONGEST_VALUE = 1024
INITIAL_NAMESPACE = "pid:[4026531836]"
"""Source: PROC_PID_INIT_INO, include/linux/proc_ns.h."""

_ENV_START = 47
_ASSIGNMENT = re.compile(rb"[A-Za-z_][^=\0]*=")
_HIDDEN = re.compile(
    r"^\S+ \S+ proc \S*hidepid=(?:[124]|noaccess|invisible|ptraceable)", re.MULTILINE
)


class Gone(Exception):  # noqa: N818 - a state, not a fault
    """There is no such process any more."""


class Denied(Exception):  # noqa: N818 - a state, not a fault
    """The file cannot be read; the words are the system's."""


@dataclass(frozen=True, slots=True)
class Stat:
    """`start_ticks` since boot; with the process id it names a process for good.

    `env_start`: where the environment lies, another place after each exec; 0 for whoever may not
    look into the process.
    """

    state: str
    parent: int
    start_ticks: int
    env_start: int = 0

    @property
    def ended(self) -> bool:
        return self.state in ("Z", "X", "x")


@dataclass(frozen=True, slots=True)
class CgroupLine:
    """One hierarchy: the v1 controllers, or none for v2, and the path."""

    controllers: str
    path: str


@dataclass(frozen=True, slots=True)
class Environment:
    """The variables that were asked for, as they were at exec.

    `wiped`: the block was overwritten (setproctitle) or is empty, and says nothing of the rest.
    """

    values: Mapping[str, str]
    wiped: bool = False


class ProcFs:
    """Reads below `root`."""

    def __init__(self, root: Path = Path("/proc")) -> None:
        self._root = str(root)

    def stat(self, pid: int) -> Stat:
        # The name of the program may hold spaces and brackets.
        fields = self._bytes(pid, "stat").rpartition(b")")[2].split()
        try:
            env_start = int(fields[_ENV_START]) if len(fields) > _ENV_START else 0
            return Stat(fields[0].decode(), int(fields[1]), int(fields[19]), env_start)
        except (IndexError, ValueError) as error:
            raise Denied(f"stat of a process: {error}") from error

    def cgroup(self, pid: int) -> tuple[CgroupLine, ...]:
        lines = os.fsdecode(self._bytes(pid, "cgroup")).splitlines()
        parts = (line.split(":", 2) for line in lines)
        return tuple(CgroupLine(p[1], p[2]) for p in parts if len(p) == 3)  # noqa: PLR2004

    def environment(self, pid: int, names: Collection[str]) -> Environment:
        """Only `names` leave this function: the rest of the block may hold secrets."""
        raw = self._bytes(pid, "environ")
        # An untouched block ends with one NUL; what overwrites it fills up with more.
        if raw.endswith(b"\0\0") or not _ASSIGNMENT.search(raw):
            return Environment({}, wiped=True)
        wanted = {os.fsencode(name): name for name in names}
        found: dict[str, str] = {}
        for entry in raw.split(b"\0"):
            key, _, value = entry.partition(b"=")
            name = wanted.get(key)
            if name and value and name not in found and len(value) <= LONGEST_VALUE:
                found[name] = value.decode("utf-8", "replace")
        return Environment(found)

    def uptime_s(self) -> float | None:
        """Seconds since boot, to 10 ms."""
        try:
            return float(_read(f"{self._root}/uptime").split()[0])
        except (Gone, Denied, IndexError, ValueError):
            return None

    def hides_processes(self) -> bool:
        """Whether /proc is mounted so that processes of others cannot be seen."""
        try:
            return bool(_HIDDEN.search(os.fsdecode(_read(f"{self._root}/self/mounts"))))
        except (Gone, Denied):
            return False

    def is_hosts(self) -> bool:
        """Whether ids here are those that the driver tells: that of the first PID namespace."""
        try:
            if str(Path(self._root, "self/ns/pid").readlink()) == INITIAL_NAMESPACE:
                return True
        except OSError:
            pass  # told by the next question
        try:
            return _read(f"{self._root}/2/comm").strip() == b"kthreadd"
        except (Gone, Denied):
            return False

    def _bytes(self, pid: int, name: str) -> bytes:
        return _read(f"{self._root}/{pid}/{name}")


def _read(path: str) -> bytes:
    try:
        with open(path, "rb", buffering=0) as file:  # noqa: PTH123 - many small reads
            return _all(file.fileno())
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ESRCH, errno.ENOTDIR):
            raise Gone(path) from error
        raise Denied(error.strerror or "not readable") from error


def _all(descriptor: int) -> bytes:
    """Files of /proc tell no size and come in pieces. Half a file is not told as a whole one."""
    parts: list[bytes] = []
    length = 0
    while part := os.read(descriptor, 65536):
        parts.append(part)
        length += len(part)
        if length > MOST_BYTES:
            raise Denied(f"more than {MOST_BYTES} bytes")
    return b"".join(parts)
