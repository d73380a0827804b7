"""An SQLite file that is read whole at the start, or set aside; small tables, saved by key.

Enters: a path, what its tables are, and how they are read; rows, and the keys of rows that went.
Leaves: a connection and what was in the file. An error when the file is out of reach means nothing
for what is in it: it has one message, and nothing is kept then; so has a disk that takes no write,
and the caller writes later.
"""

from __future__ import annotations

import errno
import logging
import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

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


Row = tuple[Any, ...]
Key = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """`keys`: the columns of its key, which are the first. `row`: the types of all columns."""

    name: str
    keys: Key
    row: Any

    def rows(self, db: sqlite3.Connection) -> Iterator[Row]:
        for row in db.execute(f"SELECT * FROM {self.name}"):  # noqa: S608 - own names
            yield msgspec.convert(row, self.row, builtin_types=(bytes,))

    def write(self, db: sqlite3.Connection, rows: Iterable[Row], gone: Iterable[Key]) -> None:
        where = " AND ".join(f"{key}=?" for key in self.keys)
        values = ",".join("?" * len(self.row.__args__))
        db.executemany(f"INSERT OR REPLACE INTO {self.name} VALUES ({values})", rows)  # noqa: S608 - own names
        db.executemany(f"DELETE FROM {self.name} WHERE {where}", gone)  # noqa: S608 - own names


@dataclass(frozen=True, slots=True)
class Change:
    """What to write of one table; `gone` are keys."""

    table: Table
    rows: Iterable[Row] = ()
    gone: Iterable[Key] = ()


Rows = Callable[[Table], Iterator[Row]]
"""The rows of a table as they were when the file was opened."""


class SqliteTables(Generic[T]):
    """`path` None keeps nothing. `load` makes of the rows what the caller needs: `loaded`.

    `load` may raise ValueError, TypeError or KeyError for a row that this program does not write.
    For one thread at a time. `messages` are those of the start, which are in the log as well.
    """

    def __init__(
        self, path: Path | None, form: FileSchema, load: Callable[[Rows], T], log: logging.Logger
    ) -> None:
        self.messages: list[str] = []
        self.in_use = False
        self._path = path
        self._form = form
        self._log = log
        self._failing = False
        self._db: sqlite3.Connection | None = None
        if path is None or (loaded := self._open(path, load)) is None:
            loaded = load(lambda _table: iter(()))
        self.loaded: T = loaded

    def save(self, *changes: Change) -> bool:
        """As `write`; False for a disk that did not take it, which is logged once."""
        try:
            self.write(*changes)
        except sqlite3.Error as error:
            if not self._failing:
                kept = f"{self._form.content} are kept in memory until it can be written"
                self._log.warning("%s: %s; %s", self._path, error, kept)
            self._failing = True
            return False
        if self._failing:
            self._log.warning("%s: writing works again", self._path)
        self._failing = False
        return True

    def write(self, *changes: Change) -> None:
        """Writes the changes as a whole. Raises sqlite3.Error."""
        if self._db is not None:
            with self._db:
                for change in changes:
                    change.table.write(self._db, change.rows, change.gone)

    def replace(self, *changes: Change) -> None:
        """Writes the tables anew, as a whole. Raises sqlite3.Error."""
        if self._db is not None:
            with self._db:
                for change in changes:
                    self._db.execute(f"DELETE FROM {change.table.name}")  # noqa: S608 - own names
                    change.table.write(self._db, change.rows, ())

    def close(self) -> None:
        if self._db is not None:
            self._db.close()

    def _open(self, path: Path, load: Callable[[Rows], T]) -> T | None:
        def read(db: sqlite3.Connection) -> T:
            return load(lambda table: table.rows(db))

        try:
            self._db, loaded, self.messages = open_whole(path, self._form, read, self._log)
        except OUT_OF_REACH as error:
            self.in_use = is_busy(error)
            message = f"{path}: {why(path, error)}; {self._form.content} do not survive a restart"
            self.messages.append(message)
            self._log.warning("%s", message)
            return None
        return loaded
