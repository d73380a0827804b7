"""Where batches are while they wait: in memory, or in an SQLite file that survives the process.

Enters: batches. Leaves: the same batches by id, and after a restart the entries of all of them.
"""

from __future__ import annotations

import logging
import os
import sqlite3
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Protocol

from otel_ofu.files.sqlite import (
    FAULTS,
    FULL,
    IS_FOLDER,
    QUOTA,
    FileSchema,
    is_busy,
    is_damaged,
    open_whole,
    set_aside,
    why,
)
from otel_ofu.model.errors import OtelOfuError
from otel_ofu.outbox.batch import Batch, Body, Entry, Priority

_log = logging.getLogger(__name__)

# The table keeps the name that it had in the first release.
_SCHEMA = """
CREATE TABLE parcel (
    id INTEGER PRIMARY KEY, exporter TEXT NOT NULL, priority INTEGER NOT NULL,
    created_s REAL NOT NULL, signal TEXT NOT NULL, points INTEGER NOT NULL, body BLOB NOT NULL
) STRICT;
"""
_FORM = FileSchema(
    _SCHEMA,
    version=1,
    content="queues",
    aside=lambda path: path.with_name(path.name + ".broken"),
    # One process owns the file; without shared memory it also works on network file systems.
    pragmas=("locking_mode = EXCLUSIVE", "auto_vacuum = INCREMENTAL"),
    is_large=True,
)
# These end by themselves or are no mistake of the configuration: the agent is of use without.
_PASSING = (FULL, QUOTA, IS_FOLDER)
# Starting value: a megabyte of free pages is not worth the writing.
_FREE_PAGES_KEPT = 256


class OutboxError(OtelOfuError):
    """The outbox cannot be used at all; reported at the start."""


class Storage(Protocol):
    """Keeps batches by id; never raises after it was built."""

    def save(self, batch: Batch) -> bool: ...

    def load(self, batch_id: int) -> Batch | None: ...

    def delete(self, ids: Iterable[int]) -> None: ...


class MemoryStorage:
    """Gone with the process."""

    def __init__(self) -> None:
        self._batches: dict[int, Batch] = {}

    def save(self, batch: Batch) -> bool:
        self._batches[batch.id] = batch
        return True

    def load(self, batch_id: int) -> Batch | None:
        return self._batches.get(batch_id)

    def delete(self, ids: Iterable[int]) -> None:
        for batch_id in ids:
            self._batches.pop(batch_id, None)


class DiskStorage:
    """An SQLite file of this process alone; every `save` is one commit.

    A killed process loses nothing that was saved; a power cut may lose the last seconds
    (`synchronous = NORMAL`). A file that breaks is set aside and a new one begun; on a disk that is
    full at the start it takes nothing. OutboxError at once if the file is in use or cannot be made.
    Callers see to it that one thread at a time is in here.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._failing = False
        self._undeleted: set[int] = set()
        self._connection = _opened(path)
        self._file = _identity(path)

    @property
    def lasting(self) -> bool:
        """Whether what is here is still there at the next start: the file may be deleted."""
        return self._connection is not None and self._file == _identity(self._path) is not None

    def entries(self) -> list[tuple[str, Entry]]:
        """What is here, by exporter and oldest first; for the start."""
        return _entries(self._connection) if self._connection else []

    def save(self, batch: Batch) -> bool:
        """False if the disk did not take it: full, read-only, broken."""
        body = batch.body
        row = (batch.id, batch.exporter, int(batch.priority), batch.created_s)
        return self._write(
            lambda connection: connection.execute(
                "INSERT INTO parcel VALUES (?, ?, ?, ?, ?, ?, ?)",
                (*row, body.signal, body.points, body.gzipped),
            )
        )

    def load(self, batch_id: int) -> Batch | None:
        """None if it is not here, or no longer readable."""
        if self._connection is None:
            return None
        try:
            row = self._connection.execute(
                "SELECT exporter, priority, created_s, signal, body, points"
                " FROM parcel WHERE id = ?",
                (batch_id,),
            ).fetchone()
            return None if row is None else _batch(batch_id, *row)
        except FAULTS as error:
            self._report(error)
            return None

    def delete(self, ids: Iterable[int]) -> None:
        """What cannot be deleted now is deleted with the next write that succeeds."""
        connection = self._connection
        if connection is None:
            return
        self._undeleted.update(ids)
        if self._undeleted and self._write(lambda _connection: None):
            self._shrink(connection)

    def close(self) -> None:
        """A sender that outlived its deadline may still call; its failure is then not reported."""
        self._failing = True
        if self._connection is not None:
            self._connection.close()

    def _write(self, statement: Callable[[sqlite3.Connection], object]) -> bool:
        connection = self._connection
        if connection is None:
            return False
        try:
            with connection:
                connection.execute("BEGIN IMMEDIATE")
                gone = [(i,) for i in self._undeleted]
                connection.executemany("DELETE FROM parcel WHERE id = ?", gone)
                statement(connection)
        except FAULTS as error:
            self._report(error)
            return False
        self._undeleted.clear()
        if self._failing:
            _log.warning("outbox %s: writing works again", self._path)
            self._failing = False
        return True

    def _shrink(self, connection: sqlite3.Connection) -> None:
        """Gives disk space back that an outage took, a megabyte at a time."""
        try:
            (free,) = connection.execute("PRAGMA freelist_count").fetchone()
            if free > _FREE_PAGES_KEPT:
                # `execute` would take one step of it, which frees one page.
                connection.executescript(f"PRAGMA incremental_vacuum({_FREE_PAGES_KEPT})")
        except FAULTS as error:
            self._report(error)

    def _report(self, error: Exception) -> None:
        if is_damaged(error):
            self._restart(error)
        elif not self._failing:
            self._failing = True
            _log.warning(
                "outbox %s: %s; a bounded part is kept in memory meanwhile", self._path, error
            )

    def _restart(self, error: Exception) -> None:
        if self._connection is not None:
            self._connection.close()
        self._undeleted.clear()
        try:
            set_aside(self._path, _FORM, error, _log)
            self._connection = _opened(self._path)
            self._file = _identity(self._path)
        except (*FAULTS, OSError, OutboxError) as again:
            _log.warning(
                "outbox %s: no new file: %s; new batches are kept in memory", self._path, again
            )


def _identity(path: Path) -> tuple[int, int] | None:
    """Which file is at the path; None if there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _batch(batch_id: int, *row: Any) -> Batch:  # noqa: ANN401 - as SQLite gives it
    exporter, priority, created_s, signal, body, points = row
    return Batch(batch_id, exporter, Priority(priority), created_s, Body(signal, body, points))


def _opened(path: Path) -> sqlite3.Connection | None:
    """The file at `path`, made if need be; a damaged one is first set aside.

    None, with one line in the log, when the disk is full or a folder is in its place. OutboxError
    if another process has it, or this user cannot make it.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        os.close(os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600))
        connection, _, _ = open_whole(path, _FORM, _entries, _log)
    except (*FAULTS, OSError) as error:
        reason = why(path, error)
        if reason not in _PASSING:
            raise OutboxError(_explained(path, error, reason)) from error
        _log.warning(
            "outbox %s: %s; a bounded part is kept in memory until the next start", path, reason
        )
        return None
    connection.isolation_level = None  # `_write` begins each transaction itself
    return connection


def _entries(connection: sqlite3.Connection) -> list[tuple[str, Entry]]:
    rows = connection.execute(
        "SELECT exporter, id, priority, created_s, length(body), points FROM parcel ORDER BY id"
    )
    return [(name, Entry(i, Priority(p), t, size, n)) for name, i, p, t, size, n in rows]


def _explained(path: Path, error: Exception, reason: str) -> str:
    if is_busy(error):
        return f"{path}: in use by another process; each agent needs its own state_dir"
    return f"{path}: {reason}; state_dir has to be a folder that this user may write to"
