"""Alerts and groups in SQLite, so that a restart neither ends nor repeats a notification.

Enters: what changed. Leaves: what was there at the last start. A file that cannot be used is set
aside and logged; a disk that takes no write is logged once and tried again with the next change.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import msgspec

from otel_ofu.files.sqlite_file import FileSchema
from otel_ofu.files.sqlite_table import Change, Rows, SqliteTables, Table
from otel_ofu.model.errors import OtelOfuError
from otel_ofu.notify.alert import Alert
from otel_ofu.notify.grouping import AlertGroup

T = TypeVar("T")

_log = logging.getLogger(__name__)

_VERSION = 1
_SCHEMA = """
CREATE TABLE alert (id TEXT PRIMARY KEY, raw BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE alert_group (key TEXT PRIMARY KEY, raw BLOB NOT NULL) WITHOUT ROWID;
"""
_FORM = FileSchema(_SCHEMA, _VERSION, "groups", lambda path: path.with_name(path.name + ".broken"))
_ALERTS = Table("alert", ("id",), tuple[str, bytes])
_GROUPS = Table("alert_group", ("key",), tuple[str, bytes])


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
    groups: dict[str, AlertGroup | None] = field(default_factory=dict)


Found = tuple[list[Alert], dict[str, SavedGroup]]


class RouteMemory:
    """One file; `path` None keeps nothing. OtelOfuError if another process has it."""

    def __init__(self, path: Path | None) -> None:
        self._file = SqliteTables(path, _FORM, _load, _log)
        if self._file.in_use:
            raise OtelOfuError(self._file.messages[0])

    def load(self) -> Found:
        """What was there when the file was opened: the alerts, and the groups by key."""
        return self._file.loaded

    def save(self, changes: Changes) -> bool:
        """Writes the changes as a whole; False if the disk did not take them."""
        return self._file.save(
            _change(_ALERTS, changes.alerts, msgspec.json.encode),
            _change(_GROUPS, changes.groups, _encode),
        )

    def close(self) -> None:
        self._file.close()


def _load(rows: Rows) -> Found:
    found = [msgspec.json.decode(raw, type=Alert) for _, raw in rows(_ALERTS)]
    return found, {key: msgspec.json.decode(raw, type=SavedGroup) for key, raw in rows(_GROUPS)}


def _change(table: Table, by_key: Mapping[str, T | None], encode: Callable[[T], bytes]) -> Change:
    kept = [(key, encode(value)) for key, value in by_key.items() if value is not None]
    return Change(table, kept, [(key,) for key, value in by_key.items() if value is None])


def _encode(group: AlertGroup) -> bytes:
    known = group.notified
    at_s = known.at_s if known.at_s > float("-inf") else None
    return msgspec.json.encode(SavedGroup(group.labels, group.due_s, sorted(known.firing), at_s))
