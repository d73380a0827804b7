"""Files as a process sees them: inside its root, whatever its links; NCCL's and DeepSpeed's.

Enters: a root and an absolute path; a process id with its environment or arguments. Leaves: the
bytes of a regular file; the listed names with their values. A link is followed from that root,
never from ours; pipes, devices, and files of the kernel are not opened.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

import msgspec

from otel_ofu.evidence.flags.catalogue import CONF_FILE
from otel_ofu.files.procfs import (
    LONGEST_VALUE,
    AccessDeniedError,
    Mounts,
    ProcessGoneError,
    ProcFs,
    mounts,
    read_descriptor,
    require_plain,
)

MOST_STEPS = 256
"""Parts of a path, those of the links in it included."""
_FOLDER = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
_PART = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK
"""Without waiting: whoever holds a lease on the file (F_SETLEASE) could make us wait."""


def read_inside(root: str, path: str, most_bytes: int) -> bytes | None:
    """None where there is no such regular file. `root`: `/proc/PID/root`.

    Raises OSError when it cannot be read, is longer than `most_bytes`, or leads through a file
    system of the kernel or of FUSE.
    """
    table = f"{root.rpartition('/')[0]}/mountinfo"
    known = mounts("/proc/self/mountinfo", table)  # a root that is no mount is in ours alone
    with ExitStack() as opened:
        try:
            found = _find(opened, root, path, known)
        except (FileNotFoundError, NotADirectoryError):
            return None
        if not stat.S_ISREG(os.fstat(found).st_mode):
            return None
        # The link of our own descriptor leads to the very file that was checked.
        file = _opened(opened, f"/proc/self/fd/{found}", _READ)
        return read_descriptor(file, most_bytes)


def _find(opened: ExitStack, root: str, path: str, known: Mounts) -> int:
    """A descriptor of what lies at the path, not yet open for reading."""
    trail = [_opened(opened, root, _FOLDER)]
    require_plain(trail[0], known)
    parts = list(_parts(path))[::-1]
    for _ in range(MOST_STEPS):
        if not parts:
            return trail[-1]
        name = parts.pop()
        if name == "..":
            trail = trail[: max(1, len(trail) - 1)]
            continue
        found = _opened(opened, name, _PART, trail[-1])
        require_plain(found, known)  # of each step: a folder of FUSE may not answer
        if not stat.S_ISLNK(os.fstat(found).st_mode):
            trail.append(found)
            continue
        target = os.readlink("", dir_fd=found)
        trail = trail[:1] if target.startswith("/") else trail
        parts += list(_parts(target))[::-1]
    raise FileNotFoundError


def _parts(path: str) -> Iterator[str]:
    return (part for part in path.split("/") if part not in ("", "."))


def _opened(opened: ExitStack, path: str, flags: int, folder: int | None = None) -> int:
    descriptor = os.open(path, flags, dir_fd=folder)
    opened.callback(os.close, descriptor)
    return descriptor


SYSTEM_FILE = "/etc/nccl.conf"
USER_FILE = ".nccl.conf"
MOST_BYTES_CONF = 64 * 2**10  # starting value: such files have a few lines
MOST_BYTES_PASSWD = 8 * 2**20  # starting value: some 100,000 users

_UID = re.compile(rb"^Uid:\s+(\d+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Conf:
    """`whole`: every file that NCCL would read was read, or is not there."""

    values: Mapping[str, str]
    whole: bool = True


class NcclConf:
    """Remembers nothing."""

    def __init__(self, procfs: ProcFs, names: Collection[str]) -> None:
        self._procfs = procfs
        self._names = frozenset(names)

    def read(self, pid: int, environment: Mapping[str, str] | None) -> Conf:
        """`environment`: the listed variables of the process, None when they are not known."""
        root = f"{self._procfs.root}/{pid}/root"
        values: dict[str, str] = {}
        try:
            for path in self._paths(pid, root, environment):
                text = read_inside(root, path, MOST_BYTES_CONF)
                values = {**_listed_names(text or b"", self._names), **values}
        except (OSError, ProcessGoneError, AccessDeniedError, ValueError):
            return Conf(values, whole=False)
        return Conf(values, whole=environment is not None)

    def _paths(self, pid: int, root: str, environment: Mapping[str, str] | None) -> tuple[str, ...]:
        named = (environment or {}).get(CONF_FILE, "")
        if named:
            # A relative one is looked up from the process's own folder, which may be anywhere.
            return (named, SYSTEM_FILE) if named.startswith("/") else (SYSTEM_FILE,)
        home = self._home(pid, root)
        return (f"{home}/{USER_FILE}", SYSTEM_FILE) if home else (SYSTEM_FILE,)

    def _home(self, pid: int, root: str) -> str:
        """As getpwuid has it from /etc/passwd; users of a directory service have none here."""
        uid = _UID.search(self._procfs.read(f"{pid}/status"))
        passwd = read_inside(root, "/etc/passwd", MOST_BYTES_PASSWD) or b""
        for line in passwd.split(b"\n") if uid else ():
            fields = line.split(b":")
            if len(fields) > 5 and uid and fields[2] == uid[1]:  # noqa: PLR2004 - passwd(5)
                return fields[5].decode("utf-8", "replace")
        return ""


def _listed_names(text: bytes, names: Collection[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for line in text.split(b"\n"):
        name, assigned, value = line.partition(b"=")
        key = name.strip().decode("ascii", "replace")
        if assigned and key in names:
            found.setdefault(key, value.strip()[:LONGEST_VALUE].decode("utf-8", "replace"))
    return found


OPTIONS = ("--deepspeed_config", "--deepspeed-config", "--deepspeed", "--ds_config")
MOST_BYTES_JSON = 2**20  # starting value: such files have a few KiB


class JsonConf:
    """Remembers nothing."""

    def __init__(self, procfs: ProcFs, names: Collection[str]) -> None:
        self._procfs = procfs
        self._names = frozenset(names)

    def read(self, pid: int, arguments: Sequence[str]) -> Mapping[str, str] | None:
        """None when a named file could not be read, or is no JSON."""
        folder = f"{self._procfs.root}/{pid}"
        try:
            for path in _named(arguments):
                whole = path if path.startswith("/") else f"{os.readlink(f'{folder}/cwd')}/{path}"  # noqa: PTH115
                text = read_inside(f"{folder}/root", whole, MOST_BYTES_JSON)
                return None if text is None else self._listed(msgspec.json.decode(text))
        except (OSError, ValueError, RecursionError):
            return None
        return {}

    def _listed(self, tree: object) -> dict[str, str]:
        found = ((name, _at(tree, name.split("."))) for name in self._names)
        return {name: text for name, text in found if text is not None}


def _named(arguments: Sequence[str]) -> Iterator[str]:
    for index, argument in enumerate(arguments):
        name, assigned, value = argument.partition("=")
        if name in OPTIONS:
            following = arguments[index + 1] if index + 1 < len(arguments) else ""
            path = value if assigned else following
            if path.endswith(".json"):
                yield path


def _at(tree: object, steps: Sequence[str]) -> str | None:
    """A switch, a number or a word as text; None where there is none."""
    for step in steps:
        if not isinstance(tree, dict):
            return None
        tree = tree.get(step)
    if isinstance(tree, bool):
        return str(tree).lower()
    return str(tree)[:LONGEST_VALUE] if isinstance(tree, int | float | str) else None
