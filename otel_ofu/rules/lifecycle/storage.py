"""Findings in SQLite, so that `since` is exact over restarts.

Enters: what changed in a round. Leaves: what was there at the last start. A file that cannot be
used is set aside with one line in `messages`; a disk that takes no write is reported by an error,
and the engine tries again with its next round.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from otel_ofu.files.sqlite import Change, FileSchema, Row, Rows, SqliteTables, Table
from otel_ofu.model import Attribute, Entity, EntityKind, Finding, FindingState, Severity
from otel_ofu.rules.files.rule import Rule, stable_hash
from otel_ofu.rules.lifecycle.texts import default_summary, fingerprint

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
_FORM = FileSchema(_SCHEMA, VERSION, "findings")

_RULES = Table(
    "rules", ("identity",), tuple[str, str, EntityKind, Severity, int, str, str, float | None]
)
_FINDINGS = Table(
    "findings",
    ("rule", "entity"),
    tuple[
        str,
        str,
        FindingState,
        float,
        float | None,
        float | None,
        float | None,
        int,
        int,
        bytes,
        bytes,
    ],
)


@dataclass(slots=True)
class StoredRule:
    """What is stored of a rule: enough to end its findings when it is gone.

    `texts_id` changes when the texts of its findings do.
    """

    identity: str
    name: str
    each: EntityKind
    severity: Severity
    shadow: bool
    condition_id: str
    texts_id: str
    evaluated_s: float | None = None
    findings: dict[str, Finding] = field(default_factory=dict)

    @classmethod
    def of(cls, rule: Rule) -> StoredRule:
        texts = sorted((name, template.source) for name, template in rule.annotations.items())
        texts_id = stable_hash(rule.condition_id, texts, rule.causes, rule.link, rule.shadow)
        return cls(
            rule.identity,
            rule.name,
            rule.each,
            rule.severity,
            rule.shadow,
            rule.condition_id,
            texts_id,
        )


class FindingStorage:
    """One file; `path` None keeps nothing. Belongs to one thread; `messages` is logged as well."""

    def __init__(self, path: Path | None) -> None:
        self._file = SqliteTables(path, _FORM, _load, log)

    @property
    def messages(self) -> list[str]:
        return self._file.messages

    def load(self) -> Mapping[str, StoredRule]:
        """The rules by identity, with their findings: what was there when the file was opened."""
        return self._file.loaded

    def save(
        self, rules: Iterable[StoredRule], changed: Mapping[str, Mapping[str, Finding | None]]
    ) -> None:
        """Writes a round as a whole. `changed`: rule identity -> entity -> finding or None.

        Raises sqlite3.Error.
        """
        self._file.write(*_changes(rules, changed))

    def replace(self, rules: Iterable[StoredRule]) -> None:
        """Writes everything anew. Raises sqlite3.Error."""
        kept = list(rules)
        self._file.replace(*_changes(kept, {rule.identity: rule.findings for rule in kept}))

    def close(self) -> None:
        self._file.close()


def _load(rows: Rows) -> Mapping[str, StoredRule]:
    rules = {row[0]: _rule(row) for row in rows(_RULES)}
    for row in rows(_FINDINGS):
        if row[0] in rules:
            rules[row[0]].findings[row[1]] = _finding(row, rules[row[0]])
    return rules


def _changes(
    rules: Iterable[StoredRule], changed: Mapping[str, Mapping[str, Finding | None]]
) -> tuple[Change, Change]:
    findings = [
        (identity, key, finding)
        for identity, by_key in changed.items()
        for key, finding in by_key.items()
    ]
    kept = [_row(identity, key, finding) for identity, key, finding in findings if finding]
    gone = [(identity, key) for identity, key, finding in findings if finding is None]
    return Change(_RULES, map(_rule_row, rules)), Change(_FINDINGS, kept, gone)


def _rule(row: Row) -> StoredRule:
    rule = StoredRule(*row)
    rule.shadow = bool(rule.shadow)
    return rule


def _rule_row(rule: StoredRule) -> Row:
    return (
        rule.identity,
        rule.name,
        rule.each,
        rule.severity,
        rule.shadow,
        rule.condition_id,
        rule.texts_id,
        rule.evaluated_s,
    )


def _row(identity: str, key: str, finding: Finding) -> Row:
    attributes = dict(finding.entity.attributes) if finding.entity else {}
    return (
        identity,
        key,
        finding.state,
        finding.since_s,
        finding.fired_s,
        finding.calm_s,
        finding.unknown_s,
        finding.notified,
        finding.count,
        msgspec.json.encode(dict(finding.labels)),
        msgspec.json.encode(attributes),
    )


def _finding(row: Row, rule: StoredRule) -> Finding:
    """As it is until its rule is judged again: without evidence and the rule's texts."""
    _, key, state, since_s, fired_s, calm_s, unknown_s, notified, count, labels, attributes = row
    entity = Entity(rule.each, key, _ATTRIBUTES.decode(attributes))
    finding = Finding(
        kind="opened",
        rule=rule.name,
        entity=entity if key else None,
        fingerprint=fingerprint(rule.identity, key or None),
        severity=rule.severity,
        at_s=since_s if fired_s is None else fired_s,
        since_s=since_s,
        summary="",
        labels=_LABELS.decode(labels),
        shadow=rule.shadow,
        count=count,
        each=rule.each,
        state=state,
        fired_s=fired_s,
        calm_s=calm_s,
        unknown_s=unknown_s,
        notified=bool(notified),
    )
    return msgspec.structs.replace(finding, summary=default_summary(finding))
