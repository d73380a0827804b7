"""What is allowed in rules and probably not meant; the schema for editors."""

from __future__ import annotations

import json

import pytest

from otel_ofu.catalog.registry import load_registry
from otel_ofu.rules.files import rules_from_text
from otel_ofu.rules.files.lint import lint
from otel_ofu.rules.files.shape import RuleShape, schema

RULE = """
      - alert: {name}
        each: gpu
        expr: {expr}
        for: 10m
        labels: {{severity: info}}
        annotations: {{summary: text}}
        tests:
          - {{name: a, series: {{ofu: 0.1x60}}, fires_at: 20m}}
          - {{name: b, series: {{ofu: 0.9x60}}}}
          - {{name: c, series: {{ofu: _x60}}}}
"""


def warnings(*rules: str) -> list[str]:
    text = "groups:\n  - name: g\n    interval: 30s\n    rules:" + "".join(rules)
    found = lint(rules_from_text(text, load_registry()), load_registry())
    return [f"{problem.line}: {problem.message}" for problem in found]


def good(name: str = "A", expr: str = "avg(ofu, 10m) < 15%") -> str:
    return RULE.format(name=name, expr=expr)


def test_a_complete_rule_gives_no_warning() -> None:
    assert warnings(good(), good("B", "avg(ofu, 5m) < 15%")) == []


@pytest.mark.parametrize(
    ("before", "after", "warning"),
    [
        ("for: 10m", "for: 10s", "for 10s is shorter than the interval 30s of its group"),
        ("for: 10m", "keep_firing_for: 29s\n        for: 1m", "keep_firing_for 29s is shorter"),
        ("for: 10m", "for: 0", "without `for` one round is enough to fire"),
        ("ofu, 10m", "ofu, 15s", "avg(ofu, 15s): a window shorter than two steps of 10s"),
        ("severity: info", "team: x", "no label `severity`; it counts as warning"),
        ("summary: text", "other: text", "no annotation `summary`"),
        (", fires_at: 20m", "", "no test in which it fires"),
        ("{ofu: 0.9x60}}", "{ofu: 0.9x60}, fires_at: 1m}", ""),
        ("ofu: _x60", "ofu: 1x60", "no test with missing data"),
        ("ofu: 0.9x60", "gpu_util: 0x60, ofu: 0.9x60", "series gpu_util: a number in hexadecimal"),
        ("ofu: 0.9x60", "gpu_util: '0x60', ofu: 0.9x60", ""),
        ("ofu: 0.9x60", "gpu_util: 0x60 0.1x2, ofu: 0.9x60", ""),
        ("for: 10m", "clear: ofu > 10%\n        for: 1m", "clear overlaps expr: both hold with a"),
        ("for: 10m", "clear: ofu > 20%\n        for: 1m", ""),
        ("avg(ofu, 10m) < 15%", "ofu >= 0", "ofu >= 0 holds wherever it is known"),
        ("avg(ofu, 10m) < 15%", "count(ofu, 10m) > 61", "count(ofu, 10m) > 61 never holds"),
        ("avg(ofu, 10m) < 15%", "count(ofu, 10m) > 60", ""),
    ],
)
def test_what_is_probably_not_meant_is_told(before: str, after: str, warning: str) -> None:
    rule = good()
    assert before in rule
    told = warnings(rule.replace(before, after))
    assert [line.startswith(f"5: A: {warning}") for line in told] == ([True] if warning else [])


def test_a_rule_without_tests_and_one_that_always_fires_are_told() -> None:
    bare = "\n      - {alert: A, each: gpu, expr: ofu < 1, for: 1m, labels: {severity: info}, "
    bare += "annotations: {summary: x}}\n"
    assert warnings(bare) == ["5: A: no tests"]
    always = good().replace("{ofu: 0.9x60}}", "{ofu: 0.9x60}, fires_at: 1m}")
    always = always.replace("{ofu: _x60}}", "{ofu: _x60}, fires_at: 1m}")
    assert warnings(always) == ["5: A: no test in which it stays quiet"]


def test_two_rules_with_one_condition_are_told() -> None:
    (line,) = warnings(good(), good("B", "avg(ofu,600s) < 15%"))
    assert line.endswith("B: the same condition as A at rules.yaml:5")


def test_the_schema_knows_every_key_and_refuses_others() -> None:
    made = schema()
    json.dumps(made)
    rule = made["$defs"]["RuleShape"]
    assert set(rule["properties"]) == set(RuleShape.__struct_encode_fields__)
    assert rule["additionalProperties"] is False
    assert rule["required"] == ["alert", "each"]
    assert rule["properties"]["each"]["enum"] == ["gpu", "job", "node"]
    assert all("description" in p or "$ref" in str(p) for p in rule["properties"].values())
