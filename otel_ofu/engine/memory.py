"""Findings in SQLite, so that `since` is exact over restarts.

Enters: what changed in a round. Leaves: what was there at the last start. A file that cannot be
used is set aside with one line in `messages`; a disk that does not take a write is told by an
error, and the engine tries again with its next round.
"""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import msgspec

from otel_ofu.engine.findings import Finding
from otel_ofu.engine.lifecycle import Phase, State
from otel_ofu.engine.rulefile.rule import Severity
from otel_ofu.model import Attribute, Entity, EntityKind

VERSION = 1

log = logging.getLogger(__name__)

_LABELS = msgspec.json.Decoder(dict[str, str])
_ATTRIBUTES = msgspec.json.Decoder(dict[str, Attribute])

_SCHEMA = """
CREATE TABLE rules (
  identity TEXT PRIMARY KEY, name TEXT NOT NULL, kind TEXT NOT NULL, severity TEXT NOT NULL,
  shadow INTEGER NOT NULL, condition TEXT NOT NULL, words TEXT NOT NULL, evaluated_s REAL
) WITHOUT ROWID;
CREATE TABLE findings (
  rule TEXT NOT NULL, entity TEXT NOT NULL, phase TEXT NOT NULL, since_s REAL NOT NULL,
  fired_s REAL, calm_s REAL, unknown_s REAL, told INTEGER NOT NULL, count INTEGER NOT NULL,
  labels BLOB NOT NULL, attributes BLOB NOT NULL, PRIMARY KEY (rule, entity)
) WITHOUT ROWID;
"""


@dataclass(slots=True)
class KeptRule:
    """What is remembered of a rule: enough to end its findings when it is gone."""

    identity: str
    name: str
    each: EntityKind
    severity: Severity
    shadow: bool
    condition_id: str
    words_id: str
    evaluated_s: float | None = None
    findings: dict[str, Finding] = field(default_factory=dict)


class FindingMemory:
    """One file; `path` None keeps nothing. Belongs to one thread; `messages` is logged as well."""

    def __init__(self, path: Path | None) -> None:
        self.messages: list[str] = []
        self._path = path
        self._db = self._open()

    def load(self) -> Mapping[str, KeptRule]:
        """The rules by identity, with their findings."""
        if self._db is None:
            return {}
        rules = {row[0]: _rule(row) for row in self._db.execute("SELECT * FROM rules")}
        for row in self._db.execute("SELECT * FROM findings"):
            if row[0] in rules:
                self._restore(rules[row[0]], row)
        return rules

    def _restore(self, rule: KeptRule, row: tuple[object, ...]) -> None:
        try:
            rule.findings[str(row[1])] = _finding(row, rule.each)
        except ValueError as error:
            self._tell(f"{self._path}: {rule.name} on {row[1]}: {error}; it begins anew")

    def save(
        self, rules: Iterable[KeptRule], changed: Mapping[str, Mapping[str, Finding | None]]
    ) -> None:
        """Writes a round as a whole. `changed`: rule identity -> entity -> finding or None.

        Raises sqlite3.Error.
        """
        if self._db is not None:
            with self._db:
                _write(self._db, rules, changed)

    def replace(self, rules: Iterable[KeptRule]) -> None:
        """Writes everything anew. Raises sqlite3.Error."""
        if self._db is not None:
            kept = list(rules)
            with self._db:
                self._db.execute("DELETE FROM findings")
                self._db.execute("DELETE FROM rules")
                _write(self._db, kept, {rule.identity: rule.findings for rule in kept})

    def close(self) -> None:
        if self._db is not None:
            self._db.close()

    def _open(self) -> sqlite3.Connection | None:
        if self._path is None:
            return None
        try:
            return self._usable(self._path)
        except (sqlite3.Error, OSError) as error:
            self._tell(f"{self._path}: {error}; findings do not survive a restart")
            return None

    def _usable(self, path: Path) -> sqlite3.Connection:
        if path.exists():
            try:
                return _known(path)
            except sqlite3.OperationalError:  # locked or not readable: it may be whole
                raise
            except (sqlite3.DatabaseError, ValueError) as error:
                self._set_aside(path, error)
        return _fresh(path)

    def _set_aside(self, path: Path, error: Exception) -> None:
        aside = path.with_suffix(".unusable")
        path.replace(aside)
        for suffix in ("-wal", "-shm"):
            path.with_name(path.name + suffix).unlink(missing_ok=True)
        self._tell(f"{path}: {error}; set aside as {aside.name}, findings begin anew")

    def _tell(self, message: str) -> None:
        self.messages.append(message)
        log.warning(message)


def _connect(path: Path) -> sqlite3.Connection:
    db = sqlite3.connect(path, check_same_thread=False)
    db.execute("PRAGMA journal_mode=WAL")
    db.execute("PRAGMA synchronous=NORMAL")
    return db


def _fresh(path: Path) -> sqlite3.Connection:
    db = _connect(path)
    db.executescript(f"{_SCHEMA}PRAGMA user_version={VERSION};")
    return db


def _known(path: Path) -> sqlite3.Connection:
    """The file as it is. Raises sqlite3.Error when damaged, ValueError for another version."""
    with closing(sqlite3.connect(path)) as db:
        (version,) = db.execute("PRAGMA user_version").fetchone()
        (health,) = db.execute("PRAGMA quick_check(1)").fetchone()
    if version != VERSION:
        raise ValueError(f"it is of version {version}, this program writes {VERSION}")
    if health != "ok":
        raise ValueError(f"it is damaged: {health}")
    return _connect(path)


def _write(
    db: sqlite3.Connection,
    rules: Iterable[KeptRule],
    changed: Mapping[str, Mapping[str, Finding | None]],
) -> None:
    db.executemany("INSERT OR REPLACE INTO rules VALUES (?,?,?,?,?,?,?,?)", map(_rule_row, rules))
    for identity, findings in changed.items():
        gone = [(identity, key) for key, f in findings.items() if f is None]
        kept = [_row(identity, key, f) for key, f in findings.items() if f is not None]
        db.executemany("DELETE FROM findings WHERE rule=? AND entity=?", gone)
        db.executemany("INSERT OR REPLACE INTO findings VALUES (?,?,?,?,?,?,?,?,?,?,?)", kept)


def _rule(row: tuple[object, ...]) -> KeptRule:
    rule = KeptRule(*cast(Any, row))
    rule.shadow = bool(rule.shadow)
    return rule


def _rule_row(rule: KeptRule) -> tuple[object, ...]:
    return (
        rule.identity,
        rule.name,
        rule.each,
        rule.severity,
        rule.shadow,
        rule.condition_id,
        rule.words_id,
        rule.evaluated_s,
    )


def _row(identity: str, key: str, finding: Finding) -> tuple[object, ...]:
    state = finding.state
    attributes = dict(finding.entity.attributes) if finding.entity else {}
    return (
        identity,
        key,
        state.phase.value,
        state.since_s,
        state.fired_s,
        state.calm_s,
        state.unknown_s,
        finding.told,
        finding.count,
        msgspec.json.encode(dict(finding.labels)),
        msgspec.json.encode(attributes),
    )


def _finding(row: tuple[object, ...], each: EntityKind) -> Finding:
    _, key, phase, since_s, fired_s, calm_s, unknown_s, told, count, labels, attributes = row
    times = cast(
        "tuple[float, float | None, float | None, float | None]",
        (since_s, fired_s, calm_s, unknown_s),
    )
    entity = Entity(each, str(key), _ATTRIBUTES.decode(cast(bytes, attributes)))
    return Finding(
        entity if key else None,
        State(Phase(str(phase)), *times),
        bool(told),
        _LABELS.decode(cast(bytes, labels)),
        cast(int, count),
    )
