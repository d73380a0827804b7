"""/proc as values: who a process is, where it runs, the few variables that were asked for.

Enters: a process id. Leaves: `ProcessStat`, cgroup lines, `Environment`, arguments;
`ProcessGoneError` when the process ended in the meantime, `AccessDeniedError` when this user may
not read it. No value of an environment or of a command line stands in an error. Source: proc(5).

Also whether a file that somebody else chose is one of a disk, of memory or of a file server: files
of the kernel can block, and reading some takes away what others are to read (/proc/kmsg,
trace_pipe); those of FUSE are served by a program that may be the tenant's.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

MOST_BYTES = 8 * 2**20
"""More than the kernel lets an environment or a command line be (6 MiB)."""
LONGEST_VALUE = 8192
"""Starting value: the longest that is read of one variable, in bytes."""
MOST_ARGUMENTS = 4096
"""Starting value: launchers of jobs pass some hundred."""
FOREIGN = (
    "the agent runs in a PID namespace of its own, so the driver's process ids cannot "
    "be resolved; give it the host's (hostPID: true, or --pid=host)"
)
WIPED = (
    "processes on a GPU have overwritten their environment (setproctitle); "
    "SPT_NOENV=1 in the job keeps it"
)
REMEDY = "run the agent as root or with CAP_SYS_PTRACE"
"""For people: why processes on a GPU cannot be read, and what helps."""
INITIAL_NAMESPACE = "pid:[4026531836]"
"""Source: PROC_PID_INIT_INO, include/linux/proc_ns.h."""

_ASSIGNMENT = re.compile(rb"[A-Za-z_][^=\0]*=")
_HIDDEN = re.compile(
    rb"^\S+ \S+ proc \S*hidepid=(?:[124]|noaccess|invisible|ptraceable)", re.MULTILINE
)
_PARENT, _USER_TICKS, _SYSTEM_TICKS, _START_TICKS, _ENV_START = 1, 11, 12, 19, 47


class ProcessGoneError(Exception):
    """There is no such process or file any more."""


class AccessDeniedError(Exception):
    """The file cannot be read; the message is the system's."""


@dataclass(frozen=True, slots=True)
class ProcessStat:
    """`start_ticks` since boot; with the process id it names a process for good.

    `cpu_ticks`: user and system time of all its threads. `env_start`: the address of its
    environment, a new one after each exec; 0 for users who may not trace the process.
    """

    state: str
    parent: int
    start_ticks: int
    cpu_ticks: int
    env_start: int

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
    """The variables that were asked for, as they were at exec; empty ones too.

    A value is cut at `LONGEST_VALUE` bytes.
    `wiped`: the block was overwritten (setproctitle) or is empty, and the rest is unknown.
    """

    values: Mapping[str, str]
    wiped: bool = False


class ProcFs:
    """Reads below `root`."""

    def __init__(self, root: Path = Path("/proc")) -> None:
        self.root = str(root)

    def stat(self, pid: int, thread: int = 0) -> ProcessStat:
        """Of a process, or of one of its threads."""
        path = f"{pid}/task/{thread}/stat" if thread else f"{pid}/stat"
        # The name of the program may hold spaces and brackets.
        fields = self.read(path).rpartition(b")")[2].split()
        try:
            return ProcessStat(
                fields[0].decode(),
                int(fields[_PARENT]),
                int(fields[_START_TICKS]),
                int(fields[_USER_TICKS]) + int(fields[_SYSTEM_TICKS]),
                int(fields[_ENV_START]) if len(fields) > _ENV_START else 0,
            )
        except (IndexError, ValueError) as error:
            raise AccessDeniedError("not as the kernel writes it") from error

    def cgroup(self, pid: int) -> tuple[CgroupLine, ...]:
        lines = os.fsdecode(self.read(f"{pid}/cgroup")).splitlines()
        parts = (line.split(":", 2) for line in lines)
        return tuple(CgroupLine(p[1], p[2]) for p in parts if len(p) == 3)  # noqa: PLR2004

    def environment(self, pid: int, names: Collection[str]) -> Environment:
        """Only `names` leave this function: the rest of the block may hold secrets."""
        raw = self.read(f"{pid}/environ")
        # An untouched block ends with one NUL; what overwrites it fills up with more.
        if raw.endswith(b"\0\0") or not _ASSIGNMENT.search(raw):
            return Environment({}, wiped=True)
        wanted = {os.fsencode(name): name for name in names}
        found: dict[str, str] = {}
        for entry in raw.split(b"\0"):
            key, assigned, value = entry.partition(b"=")
            name = wanted.get(key)
            if name and assigned and name not in found:
                found[name] = value[:LONGEST_VALUE].decode("utf-8", "replace")
        return Environment(found)

    def arguments(self, pid: int) -> tuple[str, ...]:
        """The command line, its first `MOST_ARGUMENTS`; it may hold secrets."""
        raw = self.read(f"{pid}/cmdline").rstrip(b"\0")
        parts = raw.split(b"\0", MOST_ARGUMENTS)[:MOST_ARGUMENTS] if raw else []
        return tuple(part[:LONGEST_VALUE].decode("utf-8", "replace") for part in parts)

    def uptime_s(self) -> float | None:
        """Seconds since boot, to 10 ms."""
        try:
            return float(self.read("uptime").split()[0])
        except (ProcessGoneError, AccessDeniedError, IndexError, ValueError):
            return None

    def hides_processes(self) -> bool:
        """Whether /proc is mounted so that processes of others cannot be seen."""
        try:
            return bool(_HIDDEN.search(self.read("self/mounts")))
        except (ProcessGoneError, AccessDeniedError):
            return False

    def is_hosts(self) -> bool:
        """Whether ids here are those that the driver reports: that of the first PID namespace."""
        try:
            if str(Path(self.root, "self/ns/pid").readlink()) == INITIAL_NAMESPACE:
                return True
        except OSError:
            pass  # the next question finds out
        try:
            return self.read("2/comm").strip() == b"kthreadd"
        except (ProcessGoneError, AccessDeniedError):
            return False

    def read(self, path: str, most_bytes: int = MOST_BYTES) -> bytes:
        """A file below the root. Raises ProcessGoneError or AccessDeniedError."""
        return read_file(f"{self.root}/{path}", most_bytes)


def read_file(path: str, most_bytes: int = MOST_BYTES) -> bytes:
    """A file of /proc or /sys. AccessDeniedError also for one of more than `most_bytes`."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            return read_descriptor(descriptor, most_bytes)
        finally:
            os.close(descriptor)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ESRCH, errno.ENOTDIR):
            raise ProcessGoneError(path) from error
        raise AccessDeniedError(error.strerror or "not readable") from error


def read_descriptor(descriptor: int, most_bytes: int) -> bytes:
    """All of it: files of /proc have no size and come in parts.

    Raises OSError for more than `most_bytes`: half a file would pass for a whole one.
    """
    parts: list[bytes] = []
    length = 0
    while part := os.read(descriptor, 65536):
        parts.append(part)
        length += len(part)
        if length > most_bytes:
            raise OSError(errno.EFBIG, f"more than {most_bytes} bytes")
    return b"".join(parts)


Mounts = Mapping[int, str]
"""Mount id, which is unique over all namespaces, -> type of file system."""

_PLAIN = re.compile(
    r"ext2|ext3|ext4|xfs|btrfs|bcachefs|f2fs|jfs|zfs|vfat|exfat|erofs|squashfs|"
    r"iso9660|overlay|aufs|tmpfs|ramfs|rootfs|nfs|nfs4|cifs|smb3|ceph|lustre|gpfs|"
    r"beegfs|beegfs_nodev|wekafs|panfs|orangefs|pvfs2|gfs2|ocfs2|afs|9p|virtiofs|"
    r"autofs"
)
"""Starting value: disks, memory, and the file servers of clusters. autofs has folders alone."""
_MOUNT = re.compile(rb"^(\d+) .*? - (\S+) ", re.MULTILINE)
_MOUNT_ID = re.compile(rb"^mnt_id:\s*(\d+)", re.MULTILINE)


def mounts(*tables: str) -> Mounts:
    """Those of the `mountinfo` files; one that cannot be read has none. Source: proc(5)."""
    return {
        int(number): kind.decode("ascii", "replace")
        for table in tables
        for number, kind in _MOUNT.findall(_read(table))
    }


def require_plain(descriptor: int, known: Mounts, *, fuse: bool = False) -> None:
    """OSError unless the file is where reading neither waits for others nor takes from them.

    Neither opens nor asks the file system, which may not answer. `fuse`: that is plain as well.
    """
    found = _MOUNT_ID.search(_read(f"/proc/self/fdinfo/{descriptor}"))
    kind = known.get(int(found[1]), "unknown") if found else "unknown"
    if not _PLAIN.fullmatch(kind) and not (fuse and kind.startswith("fuse")):
        raise OSError(errno.EOPNOTSUPP, f"not a file of a disk (file system: {kind})")


def _read(path: str) -> bytes:
    try:
        return read_file(path)
    except (ProcessGoneError, AccessDeniedError):
        return b""
