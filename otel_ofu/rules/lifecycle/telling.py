"""From what happened to the findings of a rule, to what people are told.

Every finding that opened is told exactly one end. Beyond the rule's limit, findings are told as one
summary, which opens, is updated when their number doubles or halves, and ends with the last.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from otel_ofu.model.labels import entity_labels
from otel_ofu.rules.files.rule import Rule
from otel_ofu.rules.lifecycle.change import (
    Change,
    ChangeKind,
    Reason,
    fingerprint,
    rule_labels,
    told_first,
)
from otel_ofu.rules.lifecycle.findings import SUMMARY, Finding, Findings, Happened
from otel_ofu.rules.lifecycle.lifecycle import Move, Phase, State
from otel_ofu.rules.verdicts import Observed

Look = Callable[[int | None], Sequence[Observed]]
"""The evidence at a column; nothing for None."""


@dataclass(frozen=True, slots=True)
class _Told:
    """What is said beside the finding itself."""

    reason: Reason = ""
    evidence: Sequence[Observed] = ()
    count: int = 1


@dataclass(frozen=True, slots=True)
class Teller:
    """Tells of one rule at one instant."""

    rule: Rule
    now_s: float
    look: Look

    def tell(self, findings: Findings, happened: Iterable[Happened]) -> Iterator[Change]:
        """The changes of a round, ends first, so that places under the limit are free again."""
        events = list(happened)
        for event in events:
            if event.move is not Move.OPENED and event.finding.told:
                reason: Reason = "no_data" if event.move is Move.NO_DATA else "recovered"
                yield self.resolved(event.finding, reason, event.column)
        yield from self._open(findings, [e for e in events if e.move is Move.OPENED])
        yield from self._summarise(findings)

    def resolved(self, finding: Finding, reason: Reason, column: int | None = None) -> Change:
        return self.change("resolved", finding, reason, column)

    def change(
        self, kind: ChangeKind, finding: Finding, reason: Reason = "", column: int | None = None
    ) -> Change:
        """The change of one finding, which remembers it."""
        evidence = told_first(self.look(column))
        finding.change = _change(self, kind, finding, _Told(reason, evidence))
        return finding.change

    def _open(self, findings: Findings, opened: Sequence[Happened]) -> Iterator[Change]:
        room = math.inf
        if self.rule.limit and opened:
            room = self.rule.limit - sum(1 for other in findings if other.told)
        for number, event in enumerate(opened):
            finding = event.finding
            finding.told = number < room
            finding.labels = rule_labels(self.rule, finding.entity)
            if finding.told:
                yield self.change("opened", finding, "", event.column)

    def _summarise(self, findings: Findings) -> Iterator[Change]:
        if not self.rule.limit and findings.summary is None:
            return
        rest = [f for f in findings if f.fired and not f.told]
        summary = findings.summary
        if summary is None:
            if rest:
                yield self._opened_summary(findings, rest)
        elif not rest:
            yield self._count(findings, summary, "resolved", 0)
            findings.drop(SUMMARY)
        elif _differs(summary.count, len(rest)):
            yield self._count(findings, summary, "updated", len(rest))
        elif summary.change is None:
            self._count(findings, summary, "updated", summary.count)

    def _opened_summary(self, findings: Findings, rest: Sequence[Finding]) -> Change:
        since_s = min(f.state.since_s for f in rest)
        summary = Finding(None, State(Phase.FIRING, since_s, self.now_s), told=True)
        summary.labels = rule_labels(self.rule, None)
        return self._count(findings, summary, "opened", len(rest))

    def _count(self, findings: Findings, summary: Finding, kind: ChangeKind, count: int) -> Change:
        summary.count = count
        findings.put(summary)
        reason: Reason = "recovered" if kind == "resolved" else ""
        summary.change = _change(self, kind, summary, _Told(reason, (), count))
        return summary.change


def _differs(before: int, count: int) -> bool:
    return count >= 2 * before or 2 * count <= before


def _change(teller: Teller, kind: ChangeKind, finding: Finding, told: _Told) -> Change:
    rule, state, entity = teller.rule, finding.state, finding.entity
    return Change(
        kind=kind,
        rule=rule.name,
        each=rule.each,
        entity=entity,
        fingerprint=fingerprint(rule.identity, entity.id if entity else None),
        at_s=teller.now_s,
        since_s=state.since_s,
        fired_s=teller.now_s if state.fired_s is None else state.fired_s,
        severity=rule.severity,
        reason=told.reason,
        evidence=told.evidence,
        labels=finding.labels,
        annotations=_annotations(rule, finding, told),
        causes=rule.causes,
        link=rule.link,
        shadow=rule.shadow,
        count=told.count,
    )


def _annotations(rule: Rule, finding: Finding, told: _Told) -> dict[str, str]:
    entity = finding.entity
    if entity is None:
        text = f"{rule.name}: {told.count} more {rule.each}s than the {rule.limit} told one by one"
        return {"summary": text}
    first = told.evidence[0] if told.evidence else None
    values = {
        "value": first.value if first else None,
        "threshold": first.threshold if first else None,
        "coverage": first.coverage if first else None,
        "rule": rule.name,
        "entity": entity.id,
    }
    labels = {**entity_labels(entity), **finding.labels}
    return {name: text.render(values, labels) for name, text in rule.annotations.items()}
