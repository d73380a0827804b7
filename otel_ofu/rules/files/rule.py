"""Rules as the engine holds them: checked, frozen, without a trace of YAML."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from otel_ofu.model import SEVERITIES, EntityKind, Severity
from otel_ofu.rules.annotations import Template
from otel_ofu.rules.language.printing import to_text
from otel_ofu.rules.language.syntax import DEFAULT_LIMITS, DataLimits, Expression

SEVERITY = "severity"


@dataclass(frozen=True, slots=True)
class FilePosition:
    """Where something stands in a rule file; lines and columns count from 1."""

    path: str = ""
    line: int = 0
    column: int = 0


@dataclass(frozen=True, slots=True)
class RuleTiming:
    """All in seconds. `missing_timeout_s`: unknown for so long ends a finding as no_data."""

    for_s: float = 0.0
    keep_firing_for_s: float = 0.0
    missing_timeout_s: float = 150.0


@dataclass(frozen=True, slots=True)
class SilenceCondition:
    """Instead of a condition: an entity that was not seen for `after_s`."""

    after_s: float


@dataclass(frozen=True, slots=True)
class RuleTest:
    """One test of a rule. Times are seconds from the first sample; NaN is a missing sample.

    `series`: (entity, metric) -> samples. `fires_at_s`, `resolves_at_s`: entity -> when.
    `hexadecimal`: the keys of series whose text is a number for YAML tools, which rewrite it.
    """

    name: str
    step_s: float
    series: Mapping[tuple[str, str], tuple[float, ...]]
    fires_at_s: Mapping[str, float] = field(default_factory=dict)
    resolves_at_s: Mapping[str, float] = field(default_factory=dict)
    causes: tuple[str, ...] = ()
    position: FilePosition = FilePosition()
    hexadecimal: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule. `limit` 0 means none."""

    name: str
    each: EntityKind
    condition: Expression | SilenceCondition
    clear: Expression | None = None
    timing: RuleTiming = RuleTiming()
    limits: DataLimits = DEFAULT_LIMITS
    limit: int = 0
    labels: Mapping[str, Template] = field(default_factory=dict)
    annotations: Mapping[str, Template] = field(default_factory=dict)
    causes: tuple[str, ...] = ()
    shadow: bool = False
    link: str = ""
    tests: tuple[RuleTest, ...] = ()
    position: FilePosition = FilePosition()

    @property
    def severity(self) -> Severity:
        """The label `severity`; warning if there is none."""
        label = self.labels.get(SEVERITY)
        return next((s for s in SEVERITIES if label and s == label.source), "warning")

    @property
    def identity(self) -> str:
        """What stays when conditions and texts change: name, kind of entity, static labels."""
        labels = sorted((name, template.source) for name, template in self.labels.items())
        return stable_hash("rule", self.name, self.each, labels)

    @property
    def condition_id(self) -> str:
        """Changes when what the rule looks at does."""
        return stable_hash(_text(self.condition), _text(self.clear), _stored(self.limits))


def stable_hash(*parts: object) -> str:
    """64 bits as 16 hexadecimal digits, the same on every machine and after every restart."""
    text = json.dumps(parts, ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _stored(limits: DataLimits) -> str:
    """As it is in the ids of stored rules, whatever the class is called."""
    return f"Limits(min_coverage={limits.min_coverage!r}, min_peers={limits.min_peers!r})"


def _text(condition: Expression | SilenceCondition | None) -> str:
    if condition is None:
        return ""
    if isinstance(condition, SilenceCondition):
        return f"silent for {condition.after_s:g}"
    return to_text(condition.root)


@dataclass(frozen=True, slots=True)
class RuleGroup:
    """Rules that are judged together, at the multiples of an interval."""

    name: str
    interval_s: float
    rules: tuple[Rule, ...]
    position: FilePosition = FilePosition()


@dataclass(frozen=True, slots=True)
class RuleSet:
    """All rules of all files; names of rules and groups are unique."""

    groups: tuple[RuleGroup, ...] = ()

    def __iter__(self) -> Iterator[Rule]:
        return (rule for group in self.groups for rule in group.rules)

    def __len__(self) -> int:
        return sum(len(group.rules) for group in self.groups)

    def find(self, name: str) -> Rule | None:
        return next((rule for rule in self if rule.name == name), None)

    def group_of(self, rule: Rule) -> RuleGroup:
        """KeyError when the rule is not of this set."""
        for group in self.groups:
            if rule in group.rules:
                return group
        raise KeyError(rule.name)

    def expressions(self) -> Iterator[Expression]:
        """Every condition that is ever judged, for how much history to keep."""
        for rule in self:
            if isinstance(rule.condition, Expression):
                yield rule.condition
            if rule.clear is not None:
                yield rule.clear
