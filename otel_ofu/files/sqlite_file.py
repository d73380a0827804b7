"""An SQLite file that is read whole at the start, or set aside.

Enters: a path, what its tables are, and how they are read. Leaves: a connection and what was in
the file; an error when the file is out of reach, which means nothing for what is in it.
"""

from __future__ import annotations

import errno
import logging
import os
import sqlite3
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import msgspec

T = TypeVar("T")

# What opening and reading may raise. A damaged file has many ways: text that is no UTF-8, a row of
# other types than its table has, a table that is not there.
FAULTS = (sqlite3.Error, msgspec.MsgspecError, ValueError, TypeError, KeyError)
OUT_OF_REACH = (sqlite3.Error, OSError)

# These codes are about the path or the disk, not of what is in the file.
_OUTSIDE = (
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_AUTH,
    sqlite3.SQLITE_NOMEM,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_INTERRUPT,
    sqlite3.SQLITE_PROTOCOL,
    sqlite3.SQLITE_TOOBIG,
    sqlite3.SQLITE_NOLFS,
    sqlite3.SQLITE_MISUSE,
)
# Starting value: more than the free bytes that a file system keeps inside an inode.
_PROBE_BYTES = 65_536

FULL, QUOTA, IS_FOLDER = "disk full", "disk quota used up", "a folder is in its place"
_REASONS = {errno.ENOSPC: FULL, errno.EDQUOT: QUOTA}


@dataclass(frozen=True, slots=True)
class FileSchema:
    """What a file of this kind is: its tables, its version, and what it holds, for messages.

    `pragmas` are set first. `is_large`: damage is found where it is read, not by a check at the
    start that reads all of it.
    """

    schema: str
    version: int
    content: str
    aside: Callable[[Path], Path] = lambda path: path.with_suffix(".unusable")
    pragmas: tuple[str, ...] = ()
    is_large: bool = False


def open_whole(
    path: Path, form: FileSchema, read: Callable[[sqlite3.Connection], T], log: logging.Logger
) -> tuple[sqlite3.Connection, T, list[str]]:
    """The file with all that is in it, made if it is not there; and the messages in `log`.

    A damaged one, or one of another version, is set aside with one line. Raises `OUT_OF_REACH`
    (see `why`) for one that can be neither opened nor made.
    """
    try:
        return *_opened(path, form, read), []
    except FAULTS as error:
        if not is_damaged(error):
            raise
        message = set_aside(path, form, error, log)
        return *_opened(path, form, read), [message]


def set_aside(path: Path, form: FileSchema, error: Exception, log: logging.Logger) -> str:
    """Moves a damaged file out of the way, with one line in `log`: the result. Raises OSError."""
    aside = form.aside(path)
    path.replace(aside)
    for suffix in ("-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
    message = (
        f"{path}: cannot be read ({error}); set aside as {aside.name}, {form.content} start empty"
    )
    log.warning("%s", message)
    return message


def is_damaged(error: Exception) -> bool:
    """Whether it is the content of the file that is wrong, and not the disk or the path."""
    if isinstance(error, sqlite3.ProgrammingError):
        return False
    return getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF not in _OUTSIDE


def is_busy(error: Exception) -> bool:
    """Whether another process has the file."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    return code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def is_full(error: OSError) -> bool:
    """Whether it is for want of room: of the disk or of this user's share of it."""
    return error.errno in _REASONS


def why(path: Path, error: Exception) -> str:
    """The reason as text: SQLite reports "disk I/O error" of much that the system can name."""
    if path.is_dir():
        return IS_FOLDER
    if getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_FULL:
        return FULL
    found = error if isinstance(error, OSError) else None
    if found is None and not is_busy(error):
        found = _refusal(path.parent)
    if found is None:
        return str(error)
    return _REASONS.get(found.errno or 0) or found.strerror or str(found)


def _refusal(folder: Path) -> OSError | None:
    """What the system answers to a new file of some size in the folder."""
    probe = folder / f".write-{os.getpid()}"
    try:
        probe.write_bytes(bytes(_PROBE_BYTES))
    except OSError as error:
        return error
    finally:
        with suppress(OSError):  # a folder that is none has no probe either
            probe.unlink()
    return None


def _opened(
    path: Path, form: FileSchema, read: Callable[[sqlite3.Connection], T]
) -> tuple[sqlite3.Connection, T]:
    db = sqlite3.connect(path, timeout=1.0, check_same_thread=False)
    try:
        for pragma in form.pragmas:
            db.execute(f"PRAGMA {pragma}")
        new = _is_new(db, form)
        db.execute("PRAGMA journal_mode=WAL")
        db.execute("PRAGMA synchronous=NORMAL")
        if new:
            db.executescript(f"BEGIN;{form.schema}PRAGMA user_version={form.version};COMMIT;")
        return db, read(db)
    except BaseException:
        db.close()
        raise


def _is_new(db: sqlite3.Connection, form: FileSchema) -> bool:
    """A file without tables is what a start on a full disk leaves behind."""
    (version,) = db.execute("PRAGMA user_version").fetchone()
    if not form.is_large:
        (health,) = db.execute("PRAGMA quick_check(1)").fetchone()
        if health != "ok":
            raise ValueError(f"it is damaged: {health}")
    (tables,) = db.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if version == 0 and tables == 0:
        return True
    if version != form.version:
        raise ValueError(f"it is of version {version}, this program writes {form.version}")
    return False
