"""Inhibition: a firing alert of a job or a node inhibits those of its GPUs, unless they are worse.

Enters: the alerts that fire. Leaves: for an alert, the one that inhibits it, if any.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from otel_ofu.notify.alert import SEVERITIES, Alert
from otel_ofu.notify.matchers import Labels, Matcher, all_match, parse_matcher

Key = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Rule:
    """A firing source inhibits the targets with the same `equal` labels that are not worse."""

    source: Sequence[Matcher]
    target: Sequence[Matcher]
    equal: Sequence[str]

    def key(self, labels: Labels) -> Key:
        """A label that is absent counts as empty, as in Alertmanager."""
        return tuple(labels.get(name, "") for name in self.equal)

    def spares(self, source: Labels, target: Labels) -> bool:
        return severity_rank(target) > severity_rank(source)


RULES = (
    Rule(
        [parse_matcher('ofu_entity="job"')],
        [parse_matcher('ofu_entity=~"node|gpu"')],
        ["ofu_job_id"],
    ),
    Rule([parse_matcher('ofu_entity="node"')], [parse_matcher('ofu_entity="gpu"')], ["host_name"]),
)


def severity_rank(labels: Labels) -> int:
    severity = labels.get("severity", "")
    return SEVERITIES.index(severity) if severity in SEVERITIES else -1


class Inhibition:
    """The sources among the firing alerts, looked up by their `equal` labels."""

    def __init__(self, firing: Iterable[Alert], rules: Sequence[Rule] = RULES) -> None:
        self._rules = [(rule, dict[Key, list[Alert]]()) for rule in rules]
        for alert in firing:
            for rule, sources in self._rules:
                if all_match(rule.source, alert.labels):
                    _keep(sources.setdefault(rule.key(alert.labels), []), alert)

    def source_of(self, target: Alert) -> Alert | None:
        """The alert that explains this one. Of two on both sides neither explains the other.

        Source: Alertmanager, inhibit.go: both sides matching would let two alerts hide each other.
        """
        for rule, sources in self._rules:
            if not all_match(rule.target, target.labels):
                continue
            both = all_match(rule.source, target.labels)
            for source in sources.get(rule.key(target.labels), ()):
                mutual = both and all_match(rule.target, source.labels)
                if not mutual and not rule.spares(source.labels, target.labels):
                    return source
        return None


# Of one key a few sources say as much as ten thousand: the worst is what decides.
_MOST_SOURCES = 16


def _keep(sources: list[Alert], alert: Alert) -> None:
    sources.append(alert)
    if len(sources) > _MOST_SOURCES:
        sources.sort(key=lambda a: a.rank)
        sources.pop()
