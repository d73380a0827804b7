"""What became of a finding, with everything that people and other programs are told of it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from otel_ofu.model import Entity, EntityKind
from otel_ofu.model.labels import entity_labels
from otel_ofu.rules.files.rule import Rule, Severity, stable_hash
from otel_ofu.rules.verdicts import Observed

ChangeKind = Literal["opened", "updated", "resolved"]
Reason = Literal["", "recovered", "no_data", "rule_removed", "rule_changed"]


@dataclass(frozen=True, slots=True)
class Change:
    """A finding that opened, changed or ended at `at_s` (Unix seconds).

    `entity` None: a summary of `count` findings beyond the rule's limit. `since_s`: when the
    condition began to hold. `reason` says why it ended or changed. `evidence`: the comparisons
    that the verdict rests on, as they are now; empty when nothing is known.
    """

    kind: ChangeKind
    rule: str
    each: EntityKind
    entity: Entity | None
    fingerprint: str
    at_s: float
    since_s: float
    fired_s: float
    severity: Severity = "warning"
    reason: Reason = ""
    evidence: Sequence[Observed] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    causes: tuple[str, ...] = ()
    link: str = ""
    shadow: bool = False
    count: int = 1

    @property
    def value(self) -> float | None:
        """Left side of the comparison that tells most; None if unknown."""
        return _number(self.evidence[0].value) if self.evidence else None

    @property
    def threshold(self) -> float | None:
        return _number(self.evidence[0].threshold) if self.evidence else None

    @property
    def window_s(self) -> float | None:
        return self.evidence[0].window_s if self.evidence else None

    @property
    def coverage(self) -> float | None:
        """The smallest part of a window that had data, over the evidence."""
        known = [e.coverage for e in self.evidence if not math.isnan(e.coverage)]
        return min(known) if known else None


def fingerprint(rule_identity: str, entity_id: str | None) -> str:
    """The same finding always has the same: rule, static labels, entity. None for a summary."""
    return stable_hash("finding", rule_identity, entity_id)


def rule_labels(rule: Rule, entity: Entity | None) -> Mapping[str, str]:
    """The rule's labels for an entity."""
    known = entity_labels(entity)
    return {name: template.render({}, known) for name, template in rule.labels.items()}


def told_first(evidence: Sequence[Observed]) -> Sequence[Observed]:
    """The comparisons in the order of the text, but one that holds in front of all."""
    first = next((e for e in evidence if e.verdict == 1), None)
    return evidence if first is None else (first, *(e for e in evidence if e is not first))


def _number(value: float) -> float | None:
    return None if math.isnan(value) else value
