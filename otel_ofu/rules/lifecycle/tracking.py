"""Rules with their findings over rounds, reloads and restarts.

Enters: what was kept, the rules that hold now. Leaves: `Tracked`s, and the ends of findings whose
rule is gone. The same rule and condition keeps everything; a changed condition lets pending
findings begin anew and keeps firing ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from otel_ofu.rules.files.rule import Rule, RuleSet, stable_hash
from otel_ofu.rules.lifecycle.change import Change, fingerprint
from otel_ofu.rules.lifecycle.findings import Finding, Findings, Judged
from otel_ofu.rules.lifecycle.judging import RuleRound
from otel_ofu.rules.lifecycle.memory import KeptRule
from otel_ofu.rules.lifecycle.telling import Teller


@dataclass(slots=True)
class Tracked:
    """One rule with its findings.

    `row` is what is remembered of the rule itself. `changed`: its words are not those that people
    were told.
    """

    rule: Rule
    findings: Findings
    row: KeptRule
    changed: bool = False

    def advance(self, judged: RuleRound, now_s: float) -> Iterator[Change]:
        """One round."""
        last_s, self.row.evaluated_s = self.row.evaluated_s, now_s
        gap_s = max(0.0, now_s - last_s) if last_s is not None else 0.0
        at = Judged(now_s, judged.present, judged.verdicts, judged.clears, gap_s)
        happened = self.findings.advance(at, self.rule.timing)
        teller = Teller(self.rule, now_s, judged.look)
        yield from self._tell_again(teller, at)
        yield from teller.tell(self.findings, happened)

    def active(self) -> Iterator[Change]:
        """What was told last of the findings that are open."""
        summary = self.findings.summary
        for finding in (*self.findings, *([summary] if summary else [])):
            if finding.told and finding.change is not None:
                yield finding.change

    def kept(self) -> KeptRule:
        return replace(self.row, findings=self.findings.all())

    def _tell_again(self, teller: Teller, judged: Judged) -> Iterator[Change]:
        """Findings whose words changed, and silently those that were told before a restart."""
        changed, self.changed = self.changed, False
        for finding in self.findings:
            if finding.told and (changed or finding.change is None):
                column = judged.present.columns.get(finding.entity.id) if finding.entity else None
                again = teller.change("updated", finding, "rule_changed", column)
                if changed:
                    yield again


def row_of(rule: Rule) -> KeptRule:
    """What is remembered of a rule."""
    texts = sorted((name, template.source) for name, template in rule.annotations.items())
    words = stable_hash(rule.condition_id, texts, rule.causes, rule.link, rule.shadow)
    return KeptRule(
        rule.identity, rule.name, rule.each, rule.severity, rule.shadow, rule.condition_id, words
    )


def adopt(kept: Mapping[str, KeptRule], rules: RuleSet) -> dict[str, Tracked]:
    """The rules by name, with the findings that they keep."""
    return {rule.name: _adopted(rule, row_of(rule), kept) for rule in rules}


def _adopted(rule: Rule, row: KeptRule, kept: Mapping[str, KeptRule]) -> Tracked:
    before = kept.get(row.identity)
    if before is None:
        return Tracked(rule, Findings(), row)
    row.evaluated_s = before.evaluated_s
    findings = Findings(before.findings)
    if before.condition_id != row.condition_id:
        findings.rearm()
    return Tracked(rule, findings, row, before.words_id != row.words_id)


def farewells(kept: Mapping[str, KeptRule], rules: RuleSet, now_s: float) -> Iterator[Change]:
    """The ends of what was told of rules that are gone."""
    here = {rule.identity for rule in rules}
    for identity, rule in kept.items():
        if identity not in here:
            told = (finding for finding in rule.findings.values() if finding.told)
            yield from (_farewell(rule, finding, now_s) for finding in told)


def _farewell(rule: KeptRule, finding: Finding, now_s: float) -> Change:
    entity, state = finding.entity, finding.state
    return Change(
        kind="resolved",
        rule=rule.name,
        each=rule.each,
        entity=entity,
        fingerprint=fingerprint(rule.identity, entity.id if entity else None),
        at_s=now_s,
        since_s=state.since_s,
        fired_s=now_s if state.fired_s is None else state.fired_s,
        severity=rule.severity,
        reason="rule_removed",
        labels=finding.labels,
        shadow=rule.shadow,
    )
