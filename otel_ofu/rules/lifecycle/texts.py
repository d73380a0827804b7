"""What a rule gives a finding: its fingerprint, labels and texts.

Enters: a rule, a finding, evidence as it is now. Leaves: the finding with its texts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from otel_ofu.model import Entity, Evidence, Finding
from otel_ofu.model.labels import entity_labels
from otel_ofu.rules.files.rule import Rule, stable_hash


def fingerprint(rule_identity: str, entity_id: str | None) -> str:
    """The same finding always has the same: rule, static labels, entity. None for a summary."""
    return stable_hash("finding", rule_identity, entity_id)


def default_summary(finding: Finding) -> str:
    """What a finding is called whose rule has no annotation `summary`."""
    return f"{finding.rule} on {finding.subject}"


def rule_labels(rule: Rule, entity: Entity | None) -> Mapping[str, str]:
    """The rule's labels for an entity."""
    known = entity_labels(entity)
    return {name: template.render({}, known) for name, template in rule.labels.items()}


def rendered(finding: Finding, rule: Rule, evidence: Sequence[Evidence]) -> Finding:
    """The finding with all that its rule gives it, from the evidence. Causes begin anew."""
    bare = replace(
        finding,
        severity=rule.severity,
        annotations={},
        causes=(),
        facts={},
        candidates=rule.causes,
        link=rule.link,
        shadow=rule.shadow,
    )
    return with_evidence(bare, rule, evidence)


def with_evidence(finding: Finding, rule: Rule, evidence: Sequence[Evidence]) -> Finding:
    """The finding with the evidence and the texts of now; what diagnosis added stays."""
    first = evidence[0] if evidence else None
    annotations = _annotations(rule, finding, evidence)
    return replace(
        finding,
        summary=annotations.get("summary") or default_summary(finding),
        value=first.value if first else None,
        threshold=first.threshold if first else None,
        evidence=evidence,
        annotations={**finding.annotations, **annotations},
    )


def _annotations(rule: Rule, finding: Finding, evidence: Sequence[Evidence]) -> dict[str, str]:
    entity = finding.entity
    if entity is None:
        more = f"{finding.count} more {rule.each}s than the {rule.limit} notified one by one"
        return {"summary": f"{rule.name}: {more}"}
    first = evidence[0] if evidence else None
    values = {
        "value": first.value if first else None,
        "threshold": first.threshold if first else None,
        "coverage": first.coverage if first else None,
        "rule": rule.name,
        "entity": entity.id,
    }
    labels = {**entity_labels(entity), **finding.labels}
    return {name: text.render(values, labels) for name, text in rule.annotations.items()}
