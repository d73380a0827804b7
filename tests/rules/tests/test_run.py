"""Tests inside rule files, on virtual time through the real store and engine."""

from __future__ import annotations

import pytest

from otel_ofu.catalog.registry import load_registry
from otel_ofu.rules.files import rules_from_text
from otel_ofu.rules.tests import run_tests

REGISTRY = load_registry()
RULES = """
groups:
  - name: g
    interval: 30s
    rules:
      - alert: LowOfu
        each: gpu
        expr: avg(ofu, 2m) < 15%
        for: 1m
        keep_firing_for: 30s
        min_coverage: 0%
        missing_timeout: 2m
        tests:
"""
JOB = """
groups:
  - name: g
    interval: 30s
    rules:
      - alert: JobLow
        each: job
        expr: gpus.max(avg(ofu, 1m)) < 15%
        tests:
"""


def lines(test: str, rules: str = RULES) -> list[str]:
    found = run_tests(rules_from_text(rules + f"          - {test}\n", REGISTRY), REGISTRY)
    return [line for result in found for line in result.lines]


COUNTED = """
groups:
  - name: g
    interval: 30s
    rules:
      - alert: NoOfu
        each: job
        expr: gpus.count(ofu) == 0
        for: 5m
        tests:
"""


def test_a_job_without_any_value_of_a_metric_can_be_found() -> None:
    test = "{name: a, series: {gpu0.ofu: _x60, gpu0-1.gpu_util: 1x60}, fires_at: 5m}"
    assert lines(test, COUNTED) == []
    assert lines("{name: a, series: {gpu0.ofu: 0.1x60, gpu1.gpu_util: 1x60}}", COUNTED) == []


@pytest.mark.parametrize(
    "test",
    [
        "{name: a, series: {ofu: 0.1x6}, fires_at: 1m}",
        "{name: a, series: {ofu: 0.1x6 0.9x9}, fires_at: 1m, resolves_at: 3m30s}",
        "{name: a, series: {ofu: 0.5x6}}",
        "{name: a, series: {ofu: _x6}}",
        "{name: a, series: {ofu: 0.1x6 _x12}, fires_at: 1m, resolves_at: 6m30s}",
        "{name: a, series: {gpu0-2.ofu: 0.1x6, gpu3.ofu: 0.5x6}, fires_at: {gpu0-2: 1m}}",
        "{name: a, step: 10s, series: {ofu: 0.5x6 0.01x30}, fires_at: 3m30s}",
        "{name: a, series: {ofu: 0.3-0.05x7 0x2}, fires_at: 3m30s}",
    ],
)
def test_what_is_expected_and_happens_passes(test: str) -> None:
    assert lines(test) == []


@pytest.mark.parametrize(
    ("test", "line"),
    [
        (
            "{name: fires late, series: {ofu: 0.1x6}, fires_at: 2m}",
            "LowOfu: fires late: expected to fire at 2m, fired at 1m",
        ),
        (
            "{name: quiet, series: {ofu: 0.1x6}}",
            "LowOfu: quiet: expected to stay quiet, fired at 1m",
        ),
        (
            "{name: dead, series: {ofu: 0.5x6}, fires_at: 1m}",
            "LowOfu: dead: expected to fire at 1m, never fired",
        ),
        (
            "{name: other, series: {gpu0.ofu: 0.5x6, gpu1.ofu: 0.1x6}, fires_at: {gpu1: 3m}}",
            "LowOfu: other: expected gpu1 to fire at 3m, fired at 1m",
        ),
        (
            "{name: end, series: {ofu: 0.1x9}, fires_at: 1m, resolves_at: 2m}",
            "LowOfu: end: expected to resolve at 2m, never resolved",
        ),
        (
            "{name: twice, series: {ofu: 0.1x4 0.9x9 0.1x20}, fires_at: 1m}",
            "LowOfu: twice: expected to fire at 1m, fired at 1m and 9m",
        ),
    ],
)
def test_what_happens_otherwise_says_how(test: str, line: str) -> None:
    assert lines(test) == [line]


def test_jobs_see_their_gpus() -> None:
    assert lines("{name: a, series: {gpu0.ofu: 0.1x4, gpu1.ofu: 0.12x4}, fires_at: 0s}", JOB) == []
    assert lines("{name: a, series: {gpu0.ofu: 0.1x4, gpu1.ofu: 0.2x4}}", JOB) == []


def test_flags_and_several_tests_of_some_rules() -> None:
    text = """
groups:
  - name: g
    rules:
      - alert: Flagged
        each: gpu
        expr: flag(NCCL_DEBUG) and power > 1
        tests:
          - {name: on, series: {flag:NCCL_DEBUG: 1x3, power: 5x3}, fires_at: 0s}
          - {name: off, series: {flag:NCCL_DEBUG: 0x3, power: 5x3}}
      - alert: Other
        each: gpu
        expr: power > 1
        tests: [{name: wrong, series: {power: 5x3}}]
"""
    rules = rules_from_text(text, REGISTRY)
    assert [r.passed for r in run_tests(rules, REGISTRY)] == [True, True, False]
    assert [r.test for r in run_tests(rules, REGISTRY, ["Other"])] == ["wrong"]


def test_an_entity_that_is_never_heard_is_known_from_the_start() -> None:
    text = RULES.replace("expr: avg(ofu, 2m) < 15%", "silent_for: 2m").replace("for: 1m", "", 1)
    assert lines("{name: a, series: {ofu: _x9}, fires_at: 2m}", text) == []
    assert lines("{name: a, series: {ofu: 0.4x3 _x9}, fires_at: 3m}", text) == []


def test_the_limit_of_a_rule_does_not_hide_what_its_test_expects() -> None:
    text = RULES.replace("for: 1m", "limit: 1")
    test = "{name: a, series: {gpu0-2.ofu: 0.1x3}, fires_at: {gpu0-2: 0s}}"
    assert lines(test, text) == []
