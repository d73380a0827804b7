"""Alerts and groups in SQLite, so that a restart neither ends nor repeats a notification.

Enters: what changed. Leaves: what was there at the last start. A file that cannot be used is set
aside and logged; a disk that takes no write is logged once and tried again with the next change.
"""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from otel_ofu.files.sqlite_file import OUT_OF_REACH, Form, is_busy, open_whole, why
from otel_ofu.model.errors import OtelOfuError
from otel_ofu.notify import alert as alerts
from otel_ofu.notify.alert import Alert
from otel_ofu.notify.grouping import Group

_log = logging.getLogger(__name__)

_VERSION = 1
_SCHEMA = """
CREATE TABLE alert (id TEXT PRIMARY KEY, raw BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE alert_group (key TEXT PRIMARY KEY, raw BLOB NOT NULL) WITHOUT ROWID;
"""
_FORM = Form(
    _SCHEMA, _VERSION, "routing begins anew", lambda path: path.with_name(path.name + ".broken")
)


class SavedGroup(msgspec.Struct):
    """What is kept of a group: when it is due, and what its receiver was notified of last."""

    labels: Mapping[str, str]
    due_s: float
    firing: list[str] = []
    notified_s: float | None = msgspec.field(name="told_s", default=None)


@dataclass(slots=True)
class Changes:
    """What has to be written; None for what is gone."""

    alerts: dict[str, Alert | None] = field(default_factory=dict)
    groups: dict[str, Group | None] = field(default_factory=dict)


Found = tuple[list[Alert], dict[str, SavedGroup]]


class RouteMemory:
    """One file; `path` None keeps nothing. OtelOfuError if another process has it."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._failing = False
        self._db, self._found = self._open()

    def load(self) -> Found:
        """What was there when the file was opened: the alerts, and the groups by key."""
        return self._found

    def save(self, changes: Changes) -> bool:
        """Writes the changes as a whole; False if the disk did not take them."""
        try:
            with self._db:
                self._write(changes)
        except sqlite3.Error as error:
            if not self._failing:
                _log.warning(
                    "%s: %s; groups are kept in memory until it can be written", self._path, error
                )
            self._failing = True
            return False
        if self._failing:
            _log.warning("%s: writing works again", self._path)
        self._failing = False
        return True

    def close(self) -> None:
        self._db.close()

    def _write(self, changes: Changes) -> None:
        for table, key, rows in (
            ("alert", "id", {k: a and alerts.encode(a) for k, a in changes.alerts.items()}),
            ("alert_group", "key", {k: g and _encode(g) for k, g in changes.groups.items()}),
        ):
            gone = [(k,) for k, raw in rows.items() if raw is None]
            kept = [(k, raw) for k, raw in rows.items() if raw is not None]
            self._db.executemany(f"DELETE FROM {table} WHERE {key} = ?", gone)  # noqa: S608 - own names
            self._db.executemany(f"INSERT OR REPLACE INTO {table} VALUES (?, ?)", kept)  # noqa: S608 - own names

    def _open(self) -> tuple[sqlite3.Connection, Found]:
        path = self._path
        if path is not None:
            try:
                db, found, _ = open_whole(path, _FORM, _read, _log)
            except OUT_OF_REACH as error:
                if is_busy(error):
                    raise OtelOfuError(f"{path}: {error}") from error
                reason = why(path, error)
                _log.warning("%s: %s; groups are kept in memory only", path, reason)
            else:
                return db, found
        db = sqlite3.connect(":memory:", check_same_thread=False)
        db.executescript(_SCHEMA)
        return db, ([], {})


def _read(db: sqlite3.Connection) -> Found:
    """Raises one of FAULTS when any row is not what this program writes."""
    found = [alerts.decode(raw) for (raw,) in db.execute("SELECT raw FROM alert")]
    rows = db.execute("SELECT key, raw FROM alert_group")
    return found, {key: msgspec.json.decode(raw, type=SavedGroup) for key, raw in rows}


def _encode(group: Group) -> bytes:
    known = group.notified
    at_s = known.at_s if known.at_s > float("-inf") else None
    return msgspec.json.encode(SavedGroup(group.labels, group.due_s, sorted(known.firing), at_s))
