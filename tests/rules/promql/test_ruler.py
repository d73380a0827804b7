"""Exported rule files: what is in them, and that nothing is left out in silence."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from otel_ofu.catalog.registry import load_registry
from otel_ofu.rules.files import RuleSet, rules_from_text
from otel_ofu.rules.files.rule import Rule, RuleGroup
from otel_ofu.rules.language.language import parse_condition
from otel_ofu.rules.language.syntax import Comparator, Compare, Expression, Latest, Number
from otel_ofu.rules.promql.compiler import alert_query
from otel_ofu.rules.promql.ruler import TARGETS, ExportOptions, Target, export_rules
from otel_ofu.rules.promql.vectors import CompilerSettings

REGISTRY = load_registry()
EXPR = "avg(ofu, 10m) < 15% and avg(gpu_util, 10m) > 90%"


def rules(body: str) -> RuleSet:
    text = f"groups:\n  - name: g\n    interval: 90s\n    rules:\n      - {body}\n"
    return rules_from_text(text, REGISTRY)


def exported(body: str, to: Target = "prometheus", **options: Any) -> tuple[Any, tuple[str, ...]]:  # noqa: ANN401 - YAML
    found = export_rules(rules(body), to, REGISTRY, ExportOptions(**options))
    for warning in found.warnings:
        assert warning in found.text.replace("\n# ", " ")
    return yaml.safe_load(found.text), found.warnings


def rule(body: str) -> dict[str, Any]:
    tree, _ = exported(body)
    (only,) = tree["groups"][0]["rules"]
    return dict(only)


def summary(text: str, expr: str = "ofu < 15%") -> tuple[str, tuple[str, ...]]:
    body = f"{{alert: A, each: gpu, expr: '{expr}', annotations: {{summary: '{text}'}}}}"
    tree, warnings = exported(body)
    return tree["groups"][0]["rules"][0]["annotations"]["summary"], warnings


def test_a_rule_keeps_its_times_labels_and_texts() -> None:
    made = rule(
        f"{{alert: A, each: gpu, expr: '{EXPR}', for: 10m, keep_firing_for: 90s, "
        "labels: {severity: error, team: ml}, link: https://x.y/z, "
        "annotations: {summary: '{{ $labels.hw_id }} at {{ $value | percent }}'}}"
    )
    condition = parse_condition(EXPR, "gpu", REGISTRY)
    assert made == {
        "alert": "A",
        "expr": alert_query(condition, REGISTRY, CompilerSettings()),
        "for": "10m",
        "keep_firing_for": "1m30s",
        "labels": {"severity": "error", "team": "ml"},
        "annotations": {
            "summary": "{{ $labels.hw_id }} at {{ $value | humanizePercentage }}",
            "runbook_url": "https://x.y/z",
        },
    }


def test_the_condition_stands_above_the_rule() -> None:
    found = export_rules(rules(f"{{alert: A, each: gpu, expr: '{EXPR}'}}"), "prometheus", REGISTRY)
    assert f"\n  # {EXPR}\n  - alert: A\n" in found.text


def test_each_target_has_its_frame() -> None:
    body = "{alert: A, each: gpu, expr: 'ofu < 1'}"
    trees = {to: exported(body, to, name="here")[0] for to in TARGETS}
    groups = trees["prometheus"]["groups"]
    assert trees["prometheus"] == {"groups": groups}
    assert groups[0]["name"] == "g"
    assert groups[0]["interval"] == "1m30s"
    assert trees["mimir"] == {"namespace": "here", "groups": groups}
    for to, version in (
        ("prometheusrule", "monitoring.coreos.com/v1"),
        ("vmrule", "operator.victoriametrics.com/v1beta1"),
    ):
        tree = trees[to]  # type: ignore[index]
        assert tree["apiVersion"] == version
        assert tree["kind"].lower() == to
        assert tree["metadata"] == {"name": "here"}
        assert tree["spec"] == {"groups": groups}


def test_an_unknown_target_is_refused() -> None:
    with pytest.raises(ValueError, match="'thanos' is not a target; allowed: prometheus, mimir"):
        export_rules(RuleSet(), "thanos", REGISTRY)  # type: ignore[arg-type]


def test_no_rules_are_an_empty_file() -> None:
    assert yaml.safe_load(export_rules(RuleSet(), "prometheus", REGISTRY).text) == {"groups": []}


def test_what_a_ruler_cannot_do_is_told() -> None:
    _, warnings = exported(
        "{alert: A, each: gpu, expr: 'ofu < 15%', clear: 'ofu > 20%', limit: 3, shadow: true, "
        "causes: [x]}"
    )
    assert warnings == (
        "A: clear is not in it (ofu > 20%): it ends when its condition does",
        "A: limit 3 is not in it: every alert is sent",
        "A: causes are not in it: a diagnosis needs otel-ofu",
        'A: shadow is the label shadow="true": route it to nobody',
    )


def test_a_rule_that_can_never_hold_is_told() -> None:
    rule = Rule("A", "gpu", parse_condition("1 > 2", "gpu", REGISTRY))
    found = export_rules(RuleSet((RuleGroup("one", 30.0, (rule,)),)), "prometheus", REGISTRY)
    assert found.warnings == ("A: its condition can never be true",)


def test_a_rule_that_cannot_be_said_is_left_out_with_its_reason() -> None:
    strange = Compare(Comparator.LESS, Latest("nonsense"), Number(1.0))
    left_out = Rule("Strange", "gpu", Expression("", "gpu", strange))
    kept = Rule("Kept", "gpu", parse_condition("ofu < 1", "gpu", REGISTRY))
    set_ = RuleSet((RuleGroup("one", 30.0, (left_out,)), RuleGroup("two", 30.0, (left_out, kept))))
    found = export_rules(set_, "prometheus", REGISTRY)
    assert found.warnings == ("Strange: left out: nonsense is not an exported metric",)
    (group,) = yaml.safe_load(found.text)["groups"]
    assert [r["alert"] for r in group["rules"]] == ["Kept"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{{ $value }}", '{{ $value | printf "%.4g" }}'),
        ("{{ $value | ratio }}", '{{ $value | printf "%.3g" }}'),
        ("{{ $value | hertz }}", "{{ $value | humanize }}Hz"),
        ("{{ $value | bytes }}", "{{ $value | humanize1024 }}B"),
        ("{{ $value | duration }}", "{{ $value | humanizeDuration }}"),
        ("{{ $value | celsius }}", '{{ $value | printf "%.3g" }} °C'),
        ("{{ $threshold | percent }} of {{ $rule }}", "15% of A"),
        ("{{ $entity }}, {{ $labels.host_name }}", "{{ $labels.hw_id }}, {{ $labels.host_name }}"),
        ("no place: 15% of }", "no place: 15% of }"),
    ],
)
def test_texts_are_translated(text: str, expected: str) -> None:
    assert summary(text) == (expected, ())


@pytest.mark.parametrize(
    ("text", "name"),
    [("{{ $coverage | percent }}", "$coverage"), ("{{ $labels.hw_model }}", "$labels.hw_model")],
)
def test_what_a_text_cannot_have_is_shown_as_unknown_and_told(text: str, name: str) -> None:
    shown, warnings = summary(text)
    assert shown == "unknown"
    assert len(warnings) == 1
    assert warnings[0].startswith(f"A: {name} ")


def test_a_threshold_that_is_no_constant_is_unknown() -> None:
    assert summary("{{ $threshold }}", "ofu < peers.avg(ofu)")[0] == "unknown"
    assert summary("{{ $threshold }}", "ofu < 1 or gpu_util > 0.5")[0] == "unknown"


def test_silence_is_what_was_there_and_is_no_more() -> None:
    made = rule(
        "{alert: A, each: node, silent_for: 2m, annotations: {s: '{{ $value | duration }}'}}"
    )
    assert "[1h])) unless group by (host_name)" in made["expr"]
    assert made["expr"].endswith("[2m]))")
    assert made["annotations"] == {"s": "2m"}


def test_the_scrape_interval_and_closed_windows_reach_the_queries() -> None:
    tree, _ = exported("{alert: A, each: gpu, expr: 'increase(xid:79, 1m) > 0'}", step_s=15.0)
    assert "[1m:15s]" in tree["groups"][0]["rules"][0]["expr"]
    tree, _ = exported("{alert: A, each: gpu, expr: 'avg(ofu, 1m) < 1'}", closed_windows=True)
    assert "[59s999ms]" in tree["groups"][0]["rules"][0]["expr"]
