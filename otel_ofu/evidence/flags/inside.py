"""Opens a file as a process sees it: inside its root, whatever its links say.

Enters: a root and an absolute path. Leaves: the bytes of a regular file.
A link is followed from that root, never from ours; pipes, devices, and files of the kernel are
not opened.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import ExitStack

from otel_ofu.files.plain_file import Mounts, mounts, require_plain
from otel_ofu.files.procfs import read_descriptor

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
        # The link of our own descriptor leads to the very file that was looked at.
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
