"""The shelf that survives the process: bodies in an SQLite file.

Enters: parcels. Leaves: the same parcels by id, and after a restart the slips of all of them.
"""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from otel_ofu.outbox.batch import Parcel, Priority
from otel_ofu.outbox.body import Body
from otel_ofu.outbox.outbox_file import FAULTS, is_broken, open_file, replaced, slips_in
from otel_ofu.outbox.priority_queue import Slip

_log = logging.getLogger(__name__)

_FREE_PAGES_KEPT = 256


class DiskShelf:
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
        self._connection = open_file(path)
        self._file = _identity(path)

    @property
    def lasting(self) -> bool:
        """Whether what lies here is still there at the next start: the file may be deleted."""
        return self._connection is not None and self._file == _identity(self._path) is not None

    def slips(self) -> list[tuple[str, Slip]]:
        """What lies here, by exporter and oldest first; for the start."""
        return slips_in(self._connection) if self._connection else []

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
        if self._connection is None:
            return None
        try:
            row = self._connection.execute(
                "SELECT exporter, priority, created_s, signal, body, points"
                " FROM parcel WHERE id = ?",
                (parcel_id,),
            ).fetchone()
            return None if row is None else _parcel(parcel_id, *row)
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
        """A sender that outlived its deadline may still call; what it says is then not news."""
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
        if is_broken(error):
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
            self._connection = replaced(self._path, error)
            self._file = _identity(self._path)
        except (*FAULTS, OSError) as again:
            _log.warning("outbox %s: no new file: %s; kept in memory", self._path, again)


def _identity(path: Path) -> tuple[int, int] | None:
    """Which file is at the path; None if there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _parcel(parcel_id: int, *row: Any) -> Parcel:  # noqa: ANN401 - as SQLite gives it
    exporter, priority, created_s, signal, body, points = row
    return Parcel(parcel_id, exporter, Priority(priority), created_s, Body(signal, body, points))
