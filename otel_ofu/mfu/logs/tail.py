"""Which files to follow, and one file that grows, is rotated, truncated or replaced.

Enters: paths, globs, and `{job}` for the part of a path that names the job: `/logs/{job}/*.out`.
Leaves: the files that are there now, each with its job; of one file, pieces of what was added since
the last poll. Nothing blocks: only regular files of disks and file servers are read, and no more at
a time than the budget.
"""

from __future__ import annotations

import glob
import os
import re
import stat
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Literal

from otel_ofu.files.procfs import mounts, require_plain

CHUNK_BYTES = 256 * 1024
MAX_BACKLOG_BYTES = 64 * 1024 * 1024
MISSED_POLLS = 60
"""Starting values: pieces of a read, the backlog that is worth reading, and the polls without its
name after which a renamed file is left."""
_FINGERPRINT_BYTES = 64  # starting value: how a file begins, to recognise it

Start = Literal["end", "beginning"]
Identity = tuple[int, int]
"""Device and inode: two paths to one file have the same."""


@dataclass
class TailCounts:
    """How often a file was replaced or cut, and what was left unread of backlogs."""

    rotations: int = 0
    truncations: int = 0
    skipped_bytes: int = 0


@dataclass(frozen=True, slots=True)
class TailPosition:
    """How far a file had been read when it was left, how it begins, and whether it still exists."""

    identity: Identity
    offset: int
    fingerprint: bytes
    exists: bool


class FileTail:
    """Follows a path through renames, copy-and-truncate and retargeted links.

    A file that is there at the first poll is read from `start`; one that comes later from its
    beginning. `problem` is why nothing is read now, or is empty. Of a backlog above
    `MAX_BACKLOG_BYTES` the older part is skipped and counted.
    """

    def __init__(self, path: str, start: Start = "end") -> None:
        self.path = path
        self.problem = ""
        self.is_gone = False
        self.counts = TailCounts()
        self.left: TailPosition | None = None
        self.identity: Identity | None = None
        self._start: Start = start
        self._was_left = False
        self._polls_without = 0
        self._fd = -1
        self._offset = 0
        self._fingerprint = b""

    def open(self) -> bool:
        """Opens the file if it is not open yet; False, with `problem`, when that fails."""
        if self.identity is not None:
            return True
        start, self._start = self._start, "beginning"
        try:
            fd = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
        except OSError as error:
            self.is_gone = isinstance(error, FileNotFoundError)
            self.problem = f"cannot be read: {error.strerror}"
            return False
        try:
            return self._opened(fd, start)
        except OSError as error:
            self.problem = f"cannot be read: {error.strerror}"
            os.close(fd)
            return False

    def resume(self, left: TailPosition) -> None:
        """Goes on where the same file was left under another path."""
        if self.identity == left.identity:
            self._fingerprint = os.pread(self._fd, _FINGERPRINT_BYTES, 0)
            if self._fingerprint.startswith(left.fingerprint):
                self._offset = left.offset

    def chunks(self, budget_bytes: int) -> Iterator[bytes | None]:
        """What was added, in order; None where another text begins.

        When the path leads to another file, the open one is read to its end and left: `left` has
        how far, and the next call opens the other.
        """
        if not self.open():
            return
        try:
            yield from self._chunks(budget_bytes)
        except OSError as error:
            # Such as a stale handle of NFS: opened again at the next poll, where it was left.
            self.problem = f"cannot be read: {error.strerror}"
            self._leave(exists=True)

    def skip(self) -> None:
        """Leaves what was added unread: another path reads the same file."""
        if not self.open():
            return
        try:
            self._offset = os.fstat(self._fd).st_size
            if self._moved():
                self.close()
        except OSError as error:
            self.problem = f"cannot be read: {error.strerror}"
            self.close()

    def close(self) -> None:
        if self.identity is not None:
            self.identity = None
            # Nothing was written, so nothing is lost when closing fails.
            with suppress(OSError):
                os.close(self._fd)

    def _chunks(self, budget_bytes: int) -> Iterator[bytes | None]:
        moved = self._moved()
        if self._was_cut():
            self.counts.truncations += 1
            self._offset = 0
            yield None
        for chunk in self._added(budget_bytes):
            budget_bytes -= len(chunk)
            self._polls_without = 0
            yield chunk
        if moved and budget_bytes > 0:
            yield None
            self._leave(exists=os.fstat(self._fd).st_nlink > 0)

    def _opened(self, fd: int, start: Start) -> bool:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            os.close(fd)
            self.problem = "is not a regular file"
            return False
        # A job can put a link to /proc/kmsg where its log is expected.
        require_plain(fd, mounts("/proc/self/mountinfo"), fuse=True)
        self.problem, self.is_gone, self._polls_without = "", False, 0
        self._fd, self._fingerprint = fd, os.pread(fd, _FINGERPRINT_BYTES, 0)
        self._offset = status.st_size if start == "end" else 0
        self.identity = (status.st_dev, status.st_ino)
        self.counts.rotations += self._was_left
        self._was_left = False
        return True

    def _leave(self, *, exists: bool) -> None:
        if self.identity is not None:
            self.left = TailPosition(self.identity, self._offset, self._fingerprint, exists)
            self._was_left = True
        self.close()

    def _moved(self) -> bool:
        """Whether the path leads to another file now, or the open one was removed.

        A file that was renamed is read on until another one has its name or it has been silent for
        some polls: its writer may not have noticed yet. One that was removed is let go at once, or
        its space would not become free.
        """
        try:
            status = os.stat(self.path)  # noqa: PTH116 - the path is kept as text
        except FileNotFoundError:
            self._polls_without += 1
            return os.fstat(self._fd).st_nlink == 0 or self._polls_without > MISSED_POLLS
        except OSError as error:
            self.problem = f"cannot be checked: {error.strerror}"
            return False
        self.problem = ""
        return (status.st_dev, status.st_ino) != self.identity

    def _was_cut(self) -> bool:
        """Shorter than what was read, or another beginning: truncated and written anew."""
        beginning = os.pread(self._fd, _FINGERPRINT_BYTES, 0)
        changed = not beginning.startswith(self._fingerprint)
        self._fingerprint = beginning
        return changed or os.fstat(self._fd).st_size < self._offset

    def _added(self, budget_bytes: int) -> Iterator[bytes]:
        self._bound_backlog()
        while budget_bytes > 0:
            chunk = os.pread(self._fd, min(CHUNK_BYTES, budget_bytes), self._offset)
            if not chunk:
                return
            self._offset += len(chunk)
            budget_bytes -= len(chunk)
            yield chunk

    def _bound_backlog(self) -> None:
        behind = os.fstat(self._fd).st_size - self._offset
        if behind > MAX_BACKLOG_BYTES:
            self.counts.skipped_bytes += behind - MAX_BACKLOG_BYTES
            self._offset += behind - MAX_BACKLOG_BYTES


MAX_FILES = 256  # starting value: of one template
MAX_FOUND = 10_000  # starting value: names that are compared
_MAGIC = re.compile(r"[*?\[{]")


class PathTemplate:
    """A path to follow. `{job}` stands once for one part of the path, or a piece of a part."""

    def __init__(self, text: str) -> None:
        if not text.startswith("/") or "\0" in text or text.count("{job}") > 1:
            raise ValueError(
                f"{text!r}: allowed: an absolute path, with * ? [] ** and {{job}} at most once"
            )
        self.text = text
        self._before, self._mark, self._after = text.partition("{job}")

    @property
    def is_plain(self) -> bool:
        """Whether it is one path, followed even when nothing is there yet."""
        return _MAGIC.search(self.text) is None

    def found(self) -> Iterator[tuple[str, str]]:
        """Path and job of each file there now, by name. Job is empty without `{job}`."""
        if self.is_plain:
            yield self.text, ""
            return
        pattern = f"{self._before}{self._star}{self._after}"
        # pathlib has no absolute patterns; islice bounds what a careless ** walks through.
        paths = islice(glob.iglob(pattern, recursive=True), MAX_FOUND)  # noqa: PTH207
        for path in sorted(paths):
            yield path, self._job(path)

    @property
    def _star(self) -> str:
        return "*" if self._mark else ""

    def _job(self, path: str) -> str:
        if not self._mark:
            return ""
        shape = f"{_wild(self._before)}(?P<job>[^/]*?){_wild(self._after)}"
        named = re.fullmatch(shape, path)
        return named["job"] if named else ""


def _wild(text: str) -> str:
    """A glob as a regular expression within one part of a path; ** crosses parts."""
    parts = re.split(r"(\*\*/?|\*|\?|\[[^\]]*\])", text)
    return "".join(_wild_part(part) for part in parts)


def _wild_part(part: str) -> str:
    if part.startswith("**"):
        return r"(?:.*/)?" if part.endswith("/") else ".*"
    if part.startswith("[") and part.endswith("]"):
        return "[^" + part[2:] if part.startswith("[!") else part
    return {"*": "[^/]*", "?": "[^/]"}.get(part, re.escape(part))
