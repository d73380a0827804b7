"""Inhibition: a firing alert that explains another keeps it quiet.

Enters: rules and the alerts that fire. Leaves: for an alert, the one that keeps it quiet, if any.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from otel_ofu.notify.alert import SEVERITIES, Alert, label_name
from otel_ofu.notify.matchers import Labels, Matcher, all_match, parse_matcher
from otel_ofu.notify.settings import InhibitRule

Key = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Rule:
    """A parsed rule."""

    source: Sequence[Matcher]
    target: Sequence[Matcher]
    equal: Sequence[str]
    spare_worse: bool

    def key(self, labels: Labels) -> Key:
        """A label that is absent counts as empty, as Alertmanager has it."""
        return tuple(labels.get(name, "") for name in self.equal)

    def spares(self, source: Labels, target: Labels) -> bool:
        return self.spare_worse and severity_rank(target) > severity_rank(source)


def parse_rule(config: InhibitRule) -> Rule:
    """ValueError for a matcher that is none."""
    return Rule(
        [parse_matcher(text) for text in config.source_matchers],
        [parse_matcher(text) for text in config.target_matchers],
        [label_name(name) for name in config.equal],
        config.spare_worse,
    )


def severity_rank(labels: Labels) -> int:
    severity = labels.get("severity", "")
    return SEVERITIES.index(severity) if severity in SEVERITIES else -1


class Inhibition:
    """The sources among the firing alerts, looked up by their `equal` labels."""

    def __init__(self, rules: Sequence[Rule], firing: Iterable[Alert]) -> None:
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


# Of one key a few sources say as much as ten thousand: the worst is what `spare_worse` asks for.
_MOST_SOURCES = 16


def _keep(sources: list[Alert], alert: Alert) -> None:
    sources.append(alert)
    if len(sources) > _MOST_SOURCES:
        sources.sort(key=lambda a: a.rank)
        sources.pop()
