"""Rule files in YAML -> `RuleSet`."""

from otel_ofu.rules.files.load import load_rules, rule_paths, rules_from_text
from otel_ofu.rules.files.rule import (
    Case,
    FilePosition,
    Group,
    Limits,
    Rule,
    RuleSet,
    Silence,
    Timing,
)

__all__ = [
    "Case",
    "FilePosition",
    "Group",
    "Limits",
    "Rule",
    "RuleSet",
    "Silence",
    "Timing",
    "load_rules",
    "rule_paths",
    "rules_from_text",
]
