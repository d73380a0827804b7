"""Rule files in YAML -> `RuleSet`."""

from otel_ofu.rules.files.load import load_rules, rule_paths, rules_from_text
from otel_ofu.rules.files.rule import (
    Case,
    FilePosition,
    Rule,
    RuleGroup,
    RuleSet,
    RuleTiming,
    SilentFor,
)

__all__ = [
    "Case",
    "FilePosition",
    "Rule",
    "RuleGroup",
    "RuleSet",
    "RuleTiming",
    "SilentFor",
    "load_rules",
    "rule_paths",
    "rules_from_text",
]
