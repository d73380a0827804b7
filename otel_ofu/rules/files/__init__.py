"""Rule files in YAML -> `RuleSet`."""

from otel_ofu.rules.files.load import load_rules, rule_paths, rules_from_text
from otel_ofu.rules.files.rule import (
    FilePosition,
    Rule,
    RuleGroup,
    RuleSet,
    RuleTest,
    RuleTiming,
    SilenceCondition,
)

__all__ = [
    "FilePosition",
    "Rule",
    "RuleGroup",
    "RuleSet",
    "RuleTest",
    "RuleTiming",
    "SilenceCondition",
    "load_rules",
    "rule_paths",
    "rules_from_text",
]
