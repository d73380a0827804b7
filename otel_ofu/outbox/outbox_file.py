"""The outbox's SQLite file: opened for this process alone, or set aside when it is broken.

Enters: a path. Leaves: a connection whose table can be read, none with one line for a disk that is
full now, or an OutboxError.
"""

from __future__ import annotations

import logging
import os
import sqlite3
from pathlib import Path

from otel_ofu.files.sqlite_file import FULL, IS_FOLDER, QUOTA, is_busy, set_aside, why
from otel_ofu.model.errors import OtelOfuError
from otel_ofu.outbox.batch import Priority
from otel_ofu.outbox.priority_queue import Slip

_log = logging.getLogger(__name__)

_VERSION = 1
_SCHEMA = """
CREATE TABLE IF NOT EXISTS parcel (
    id INTEGER PRIMARY KEY, exporter TEXT NOT NULL, priority INTEGER NOT NULL,
    created_s REAL NOT NULL, signal TEXT NOT NULL, points INTEGER NOT NULL, body BLOB NOT NULL
) STRICT
"""

# What using a file may raise. A damaged one has more ways than its two codes: a schema or a row
# that is none, text that is no UTF-8. All other codes (busy, full, read-only, I/O) are the disk's.
FAULTS = (sqlite3.Error, ValueError, TypeError)
_BROKEN = (
    sqlite3.SQLITE_CORRUPT,
    sqlite3.SQLITE_NOTADB,
    sqlite3.SQLITE_ERROR,
    sqlite3.SQLITE_SCHEMA,
    sqlite3.SQLITE_CONSTRAINT,
    sqlite3.SQLITE_MISMATCH,
)
# Of no such mistake as another user's folder; the agent is of use all the same.
_PASSING = (FULL, QUOTA, IS_FOLDER)


class OutboxError(OtelOfuError):
    """The outbox cannot be used at all; told at start."""


def open_file(path: Path) -> sqlite3.Connection | None:
    """The file at `path`, made if need be; a broken one is first set aside.

    None, and said, when the disk is full or a folder is in its place. OutboxError if another
    process has it, or this user cannot make it.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            return _connected(path)
        except FAULTS as error:
            if not is_broken(error):
                raise
            return replaced(path, error)
    except (*FAULTS, OSError) as error:
        reason = why(path, error)
        if reason not in _PASSING:
            raise OutboxError(_why_not(path, error, reason)) from error
        _log.warning(
            "outbox %s: %s; a bounded part is kept in memory until the next start", path, reason
        )
        return None


def replaced(path: Path, error: Exception) -> sqlite3.Connection:
    """A new file in place of a broken one, which is kept as `<name>.broken`."""
    aside = set_aside(path, path.with_name(path.name + ".broken"))
    _log.error("outbox %s cannot be read (%s); it is now %s, and empty", path, error, aside.name)
    return _connected(path)


def slips_in(connection: sqlite3.Connection) -> list[tuple[str, Slip]]:
    """What lies in the file, by exporter and oldest first."""
    rows = connection.execute(
        "SELECT exporter, id, priority, created_s, length(body), points FROM parcel ORDER BY id"
    )
    return [(name, Slip(i, Priority(p), t, size, n)) for name, i, p, t, size, n in rows]


def is_broken(error: Exception) -> bool:
    """Whether the file is damaged, and not merely out of reach or closed."""
    if isinstance(error, sqlite3.ProgrammingError):
        return False
    # The binding's own errors, about text that is no UTF-8, have no code.
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT)
    return code & 0xFF in _BROKEN


def _connected(path: Path) -> sqlite3.Connection:
    os.close(os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600))
    connection = sqlite3.connect(path, timeout=1.0, isolation_level=None, check_same_thread=False)
    try:
        _prepare(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _prepare(connection: sqlite3.Connection) -> None:
    # One process owns the file; without shared memory it also works on network file systems.
    connection.execute("PRAGMA locking_mode = EXCLUSIVE")
    connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version not in (0, _VERSION):
        raise ValueError(f"version {version}; this program writes {_VERSION}")
    with connection:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute(_SCHEMA)
        if version == 0:  # a full disk takes no write, and needs none
            connection.execute(f"PRAGMA user_version = {_VERSION}")
    slips_in(connection)


def _why_not(path: Path, error: Exception, reason: str) -> str:
    if is_busy(error):
        return f"{path}: in use by another process; each agent needs its own state_dir"
    return f"{path}: {reason}; state_dir has to be a folder that this user may write to"
