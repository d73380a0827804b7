"""Where bodies lie: in memory, or in an SQLite file that survives the process.

Enters: parcels. Leaves: the same parcels by id, and after a restart the slips of all of them.
"""

from __future__ import annotations

import logging
import os
import sqlite3
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Protocol

from otel_ofu.errors import OtelOfuError
from otel_ofu.export.body import Body
from otel_ofu.export.lanes import Slip
from otel_ofu.export.parcel import Parcel, Priority

_log = logging.getLogger(__name__)

_VERSION = 1
_SCHEMA = """
CREATE TABLE IF NOT EXISTS parcel (
    id INTEGER PRIMARY KEY, exporter TEXT NOT NULL, priority INTEGER NOT NULL,
    created_s REAL NOT NULL, signal TEXT NOT NULL, points INTEGER NOT NULL, body BLOB NOT NULL
) STRICT
"""
_BROKEN = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_FREE_PAGES_KEPT = 256


class OutboxError(OtelOfuError):
    """The outbox cannot be used at all; told at start."""


class Shelf(Protocol):
    """Keeps parcels by id; never raises after it was built."""

    def save(self, parcel: Parcel) -> bool: ...

    def load(self, parcel_id: int) -> Parcel | None: ...

    def delete(self, ids: Iterable[int]) -> None: ...


class MemoryShelf:
    """Gone with the process."""

    def __init__(self) -> None:
        self._parcels: dict[int, Parcel] = {}

    def save(self, parcel: Parcel) -> bool:
        self._parcels[parcel.id] = parcel
        return True

    def load(self, parcel_id: int) -> Parcel | None:
        return self._parcels.get(parcel_id)

    def delete(self, ids: Iterable[int]) -> None:
        for parcel_id in ids:
            self._parcels.pop(parcel_id, None)


class DiskShelf:
    """An SQLite file of this process alone; every `save` is one commit.

    A killed process loses nothing that was saved; a power cut may lose the last seconds
    (`synchronous = NORMAL`). A broken file is set aside as `<name>.broken` and a new one begun.
    OutboxError if the file is in use or cannot be made. Callers see to it that one thread at a
    time is in here.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._failing = False
        self._undeleted: set[int] = set()
        try:
            self._connection = self._opened()
        except (sqlite3.Error, OSError) as error:
            raise OutboxError(_why_not(path, error)) from error

    def slips(self) -> list[tuple[str, Slip]]:
        """What lies here, by exporter and oldest first."""
        rows = self._connection.execute(
            "SELECT exporter, id, priority, created_s, length(body), points FROM parcel ORDER BY id"
        )
        return [(name, Slip(i, Priority(p), t, size, n)) for name, i, p, t, size, n in rows]

    def save(self, parcel: Parcel) -> bool:
        """False if the disk did not take it: full, read-only, broken."""
        body = parcel.body
        row = (parcel.id, parcel.exporter, int(parcel.priority), parcel.created_s)
        return self._write(
            lambda connection: connection.execute(
                "INSERT INTO parcel VALUES (?, ?, ?, ?, ?, ?, ?)",
                (*row, body.signal, body.points, body.gzipped),
            )
        )

    def load(self, parcel_id: int) -> Parcel | None:
        """None if it is not here, or no longer readable."""
        try:
            row = self._connection.execute(
                "SELECT exporter, priority, created_s, signal, body, points"
                " FROM parcel WHERE id = ?",
                (parcel_id,),
            ).fetchone()
        except sqlite3.Error as error:
            self._report(error)
            return None
        if row is None:
            return None
        exporter, priority, created_s, signal, body, points = row
        return Parcel(
            parcel_id, exporter, Priority(priority), created_s, Body(signal, body, points)
        )

    def delete(self, ids: Iterable[int]) -> None:
        """What cannot be deleted now is deleted with the next write that succeeds."""
        self._undeleted.update(ids)
        if self._undeleted and self._write(lambda _connection: None):
            self._shrink()

    def close(self) -> None:
        """A sender that outlived its deadline may still call; what it says is then not news."""
        self._failing = True
        self._connection.close()

    def _write(self, statement: Callable[[sqlite3.Connection], object]) -> bool:
        connection = self._connection
        try:
            with connection:
                connection.execute("BEGIN IMMEDIATE")
                gone = [(i,) for i in self._undeleted]
                connection.executemany("DELETE FROM parcel WHERE id = ?", gone)
                statement(connection)
        except sqlite3.Error as error:
            self._report(error)
            return False
        self._undeleted.clear()
        if self._failing:
            _log.warning("outbox %s: writing works again", self._path)
            self._failing = False
        return True

    def _shrink(self) -> None:
        """Gives disk space back that an outage took, a megabyte at a time."""
        try:
            (free,) = self._connection.execute("PRAGMA freelist_count").fetchone()
            if free > _FREE_PAGES_KEPT:
                # `execute` would take one step of it, which frees one page.
                self._connection.executescript(f"PRAGMA incremental_vacuum({_FREE_PAGES_KEPT})")
        except sqlite3.Error as error:
            self._report(error)

    def _report(self, error: sqlite3.Error) -> None:
        if getattr(error, "sqlite_errorcode", 0) & 0xFF in _BROKEN:
            self._restart(error)
        elif not self._failing:
            self._failing = True
            _log.warning(
                "outbox %s: %s; a bounded part is kept in memory meanwhile", self._path, error
            )

    def _restart(self, error: sqlite3.Error) -> None:
        self._connection.close()
        self._undeleted.clear()
        try:
            _set_aside(self._path, error)
            self._connection = self._connected()
        except (sqlite3.Error, OSError) as again:
            _log.warning("outbox %s: no new file: %s; kept in memory", self._path, again)
            self._connection = sqlite3.connect(":memory:", check_same_thread=False)

    def _opened(self) -> sqlite3.Connection:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        try:
            return self._connected()
        except sqlite3.DatabaseError as error:
            if getattr(error, "sqlite_errorcode", _BROKEN[0]) & 0xFF not in _BROKEN:
                raise
            _set_aside(self._path, error)
            return self._connected()

    def _connected(self) -> sqlite3.Connection:
        os.close(os.open(self._path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600))
        connection = sqlite3.connect(
            self._path, timeout=1.0, isolation_level=None, check_same_thread=False
        )
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
        raise sqlite3.DatabaseError(f"version {version}; this program writes {_VERSION}")
    with connection:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute(_SCHEMA)
        connection.execute(f"PRAGMA user_version = {_VERSION}")
        connection.execute("SELECT sum(length(body)) FROM parcel").fetchone()


def _set_aside(path: Path, error: Exception) -> None:
    aside = path.with_name(path.name + ".broken")
    path.replace(aside)
    for suffix in ("-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
    _log.error("outbox %s cannot be read (%s); it is now %s, and empty", path, error, aside.name)


def _why_not(path: Path, error: Exception) -> str:
    if getattr(error, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return f"{path}: in use by another process; each agent needs its own state_dir"
    return f"{path}: {error}; state_dir has to be a folder that this user may write to"
