"""A small SQLite file of a few tables, loaded whole when it is opened and saved by key.

Enters: rows and the keys of rows that are gone. Leaves: what was there at the start. A damaged
file is set aside with one message; one that can be neither opened nor made has one message, and
nothing is kept then; so has a disk that takes no write, and the caller writes later.
"""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec

from otel_ofu.files.sqlite_file import OUT_OF_REACH, FileSchema, is_busy, open_whole, why

T = TypeVar("T")

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
