"""The findings of one rule: every entity that is not inactive, carried from round to round.

Enters: an `Evaluation` a round. Leaves: the findings that opened, changed or ended, and those to
save. Work is done for the entities that are not inactive; all others are judged as one array.
Every finding that opened ends exactly once. Beyond the rule's limit, findings are notified as one
summary, which opens, is updated when their number doubles or halves, and ends with the last.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
from msgspec.structs import replace

from otel_ofu.model import Entity, Finding, FindingChange, Reason
from otel_ofu.rules.files.rule import Rule
from otel_ofu.rules.lifecycle.evaluation import Evaluation
from otel_ofu.rules.lifecycle.step import Move, is_settled, step
from otel_ofu.rules.lifecycle.storage import StoredRule
from otel_ofu.rules.lifecycle.texts import fingerprint, rendered, rule_labels, with_evidence
from otel_ofu.rules.verdicts import HOLDS

SUMMARY = ""
"""Key of the finding that stands for all beyond the limit; no entity has this id."""

_Moved = tuple[Finding, Move, int | None]
"""A finding, what became of it, and its column; None if its entity is gone."""


class RuleFindings:
    """Owned by the engine's thread. `unsaved` collects what has to be written: None deletes.

    The same rule and condition keeps what is stored; a changed condition lets pending findings
    begin anew and keeps firing ones.
    """

    def __init__(self, rule: Rule, stored: StoredRule | None = None) -> None:
        self.rule = rule
        self.row = StoredRule.of(rule)
        self.unsaved: dict[str, Finding | None] = {}
        self._open: dict[str, Finding] = {}
        self._stale = self._changed = False
        if stored is not None:
            self.row.evaluated_s = stored.evaluated_s
            self._open = dict(stored.findings)
            self._stale = True
            self._changed = stored.texts_id != self.row.texts_id
            if stored.condition_id != self.row.condition_id:
                self._forget_pending()

    def advance(self, evaluation: Evaluation) -> list[Finding]:
        """One round: what happened, ends first, so that there is room under the limit again."""
        last_s, self.row.evaluated_s = self.row.evaluated_s, evaluation.now_s
        if last_s is not None and evaluation.now_s - last_s > self.rule.timing.missing_timeout_s:
            self._forget_pending()  # what held before the gap proves nothing now
        moved = self._step(evaluation)
        updated = list(self._refresh(evaluation))
        opened = [one for one in moved if one[1] is Move.OPENED]
        ended = [one for one in moved if one[1] is not Move.OPENED and one[0].notified]
        return [
            *updated,
            *(self._ended(one, evaluation) for one in ended),
            *self._opened(opened, evaluation),
            *self._summarise(evaluation.now_s),
        ]

    def active(self) -> Iterator[Finding]:
        """The findings that are open, the summary last, without those that it stands for."""
        summary = self._open.get(SUMMARY)
        for finding in (*self._entities(), *([summary] if summary else [])):
            if finding.notified:
                yield finding

    def diagnosed(self, finding: Finding) -> None:
        """Takes what diagnosis added to a finding, so that its end has it too."""
        key = _key(finding)
        if key in self._open:
            self._open[key] = finding

    def stored(self) -> StoredRule:
        return dataclasses.replace(self.row, findings=dict(self._open))

    def _entities(self) -> Iterator[Finding]:
        return (finding for key, finding in self._open.items() if key != SUMMARY)

    def _forget_pending(self) -> None:
        for finding in [f for f in self._entities() if f.state == "pending"]:
            self._drop(_key(finding))

    def _step(self, evaluation: Evaluation) -> list[_Moved]:
        known = [key for key in self._open if key != SUMMARY]
        moved = [self._step_one(key, evaluation) for key in known]
        moved += self._begin(evaluation, frozenset(known))
        return sorted((one for one in moved if one is not None), key=_order)

    def _step_one(self, key: str, evaluation: Evaluation) -> _Moved | None:
        finding, column = self._open[key], evaluation.roster.columns.get(key)
        if column is not None:
            finding = self._described(finding, evaluation.roster.entities[column])
        verdict, clears = evaluation.at(column)
        if verdict == HOLDS and is_settled(finding):
            return None  # most of what fires goes on firing
        after, move = step(finding, verdict, clears, evaluation.now_s, self.rule.timing)
        if after is None:
            self._drop(key)
            return (finding, move, column) if move else None
        if after is not finding:
            self._keep(after)
        return (after, move, column) if move else None

    def _begin(self, evaluation: Evaluation, known: frozenset[str]) -> Iterator[_Moved | None]:
        for column in np.flatnonzero(evaluation.verdicts == HOLDS).tolist():
            entity = evaluation.roster.entities[column]
            if entity is None or entity.id in known:
                continue
            finding = self._pending(entity, evaluation.now_s)
            after, move = step(finding, *evaluation.at(column), evaluation.now_s, self.rule.timing)
            if after is not None:
                self._keep(after)
                yield (after, move, column) if move else None

    def _pending(self, entity: Entity, now_s: float) -> Finding:
        rule = self.rule
        return Finding(
            kind="opened",
            rule=rule.name,
            entity=entity,
            fingerprint="",
            severity=rule.severity,
            at_s=now_s,
            since_s=now_s,
            summary="",
            each=rule.each,
            state="pending",
            notified=False,
        )

    def _described(self, finding: Finding, entity: Entity | None) -> Finding:
        """The entity as it is now: a GPU may have changed its job."""
        if entity is finding.entity or entity == finding.entity:
            return finding
        finding = replace(finding, entity=entity)
        self._keep(finding)
        return finding

    def _refresh(self, evaluation: Evaluation) -> Iterator[Finding]:
        """The findings whose rule has other texts now; after a restart all, silently."""
        stale, changed = self._stale, self._changed
        self._stale = self._changed = False
        for key, finding in list(self._open.items()) if stale else ():
            if key == SUMMARY or not finding.notified or (finding.evidence and not changed):
                continue
            evidence = evaluation.evidence(evaluation.roster.columns.get(key))
            again = self._open[key] = rendered(finding, self.rule, evidence)
            if changed:
                at_s = evaluation.now_s
                again = replace(again, kind="updated", at_s=at_s, reason="rule_changed")
                self._open[key] = again
                yield again

    def _opened(self, moved: Sequence[_Moved], evaluation: Evaluation) -> Iterator[Finding]:
        room = math.inf
        if self.rule.limit and moved:
            room = self.rule.limit - sum(1 for other in self._entities() if other.notified)
        for number, (finding, _, column) in enumerate(moved):
            notified = number < room
            opened = replace(
                finding,
                fingerprint=fingerprint(self.row.identity, _key(finding)),
                at_s=evaluation.now_s,
                labels=rule_labels(self.rule, finding.entity),
                notified=notified,
            )
            if notified:
                opened = rendered(opened, self.rule, evaluation.evidence(column))
                yield opened
            self._keep(opened)

    def _ended(self, moved: _Moved, evaluation: Evaluation) -> Finding:
        finding, move, column = moved
        reason: Reason = "no_data" if move is Move.NO_DATA else "recovered"
        end = resolved(finding, evaluation.now_s, reason)
        return with_evidence(end, self.rule, evaluation.evidence(column))

    def _summarise(self, now_s: float) -> Iterator[Finding]:
        summary = self._open.get(SUMMARY)
        if not self.rule.limit and summary is None:
            return
        rest = [f for f in self._entities() if f.state != "pending" and not f.notified]
        if summary is None:
            if rest:
                yield self._count(self._new_summary(rest, now_s), "opened", now_s, len(rest))
        elif not rest:
            yield self._count(resolved(summary, now_s, "recovered"), "resolved", now_s, 0)
            self._drop(SUMMARY)
        elif _differs(summary.count, len(rest)):
            yield self._count(summary, "updated", now_s, len(rest))

    def _new_summary(self, rest: Sequence[Finding], now_s: float) -> Finding:
        rule = self.rule
        return Finding(
            kind="opened",
            rule=rule.name,
            entity=None,
            fingerprint=fingerprint(rule.identity, None),
            severity=rule.severity,
            at_s=now_s,
            since_s=min(f.since_s for f in rest),
            summary="",
            labels=rule_labels(rule, None),
            each=rule.each,
            fired_s=now_s,
        )

    def _count(self, summary: Finding, kind: FindingChange, now_s: float, count: int) -> Finding:
        counted = replace(summary, kind=kind, at_s=now_s, count=count)
        counted = rendered(counted, self.rule, ())
        self._keep(counted)
        return counted

    def _keep(self, finding: Finding) -> None:
        key = _key(finding)
        self._open[key] = self.unsaved[key] = finding

    def _drop(self, key: str) -> None:
        if self._open.pop(key, None) is not None:
            self.unsaved[key] = None


def resolved(finding: Finding, now_s: float, reason: Reason) -> Finding:
    """The end of a finding, with what is known of it."""
    return replace(finding, kind="resolved", state="resolved", at_s=now_s, reason=reason)


def removed(
    stored: Mapping[str, StoredRule], rules: Iterable[Rule], now_s: float
) -> Iterator[Finding]:
    """The ends of what was notified of rules that are gone."""
    here = {rule.identity for rule in rules}
    for identity, rule in stored.items():
        if identity not in here:
            notified = (f for f in rule.findings.values() if f.notified)
            yield from (resolved(finding, now_s, "rule_removed") for finding in notified)


def _key(finding: Finding) -> str:
    return finding.entity.id if finding.entity else SUMMARY


def _differs(before: int, count: int) -> bool:
    return count >= 2 * before or 2 * count <= before


def _order(moved: _Moved) -> tuple[bool, int, str]:
    finding, _, column = moved
    return column is None, column or 0, _key(finding)
