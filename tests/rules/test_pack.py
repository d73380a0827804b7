"""Every shipped rule: its tests pass, and it has one that fires, one quiet, one without data."""

from __future__ import annotations

import math
import re
from functools import cache

import pytest

from otel_ofu.catalog.registry import load_registry
from otel_ofu.files.installed import shipped
from otel_ofu.model import Entity, Observation, Window
from otel_ofu.rules.backtest import backtest
from otel_ofu.rules.files import Rule, RuleSet, RuleTest, load_rules
from otel_ofu.rules.files.lint import lint
from otel_ofu.rules.numpy.samples import retention_for
from otel_ofu.rules.tests import run_case

REGISTRY = load_registry()
START_S = 1_728_000_000.0


@cache
def pack() -> RuleSet:
    return load_rules([shipped("rules")], REGISTRY)


RULES = list(pack())
CASES = [(rule, case) for rule in RULES for case in rule.tests]


@pytest.mark.parametrize(("rule", "case"), CASES, ids=[f"{r.name}: {c.name}" for r, c in CASES])
def test_a_shipped_rule_does_what_its_test_says(rule: Rule, case: RuleTest) -> None:
    interval_s = pack().group_of(rule).interval_s
    assert run_case(rule, interval_s, case, REGISTRY).lines == ()


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_a_shipped_rule_has_a_test_of_every_kind(rule: Rule) -> None:
    assert any(case.fires_at_s for case in rule.tests)
    assert any(not case.fires_at_s and not _has_gaps(case) for case in rule.tests)
    assert any(_has_gaps(case) for case in rule.tests)


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("MfuOverCounted", 2.0564, "job 7: its MFU is 2.06 times its OFU"),
        ("MfuUnderCounted", 0.48782, "job 7: its MFU is only 0.488 times its OFU"),
        (
            "MfuOverAnotherPeak",
            3.1712,
            "job 7: the MFU that it prints is over another peak (3.17 times ours)",
        ),
    ],
)
def test_a_ratio_of_mfu_is_shown_as_a_multiple(name: str, value: float, expected: str) -> None:
    rule = pack().find(name)
    assert rule is not None
    summary = rule.annotations["summary"]
    assert summary.render({"value": value}, {"ofu_job_id": "7"}).strip() == expected


def _has_gaps(case: RuleTest) -> bool:
    return any(math.isnan(value) for samples in case.series.values() for value in samples)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_every_threshold_of_a_shipped_rule_says_where_it_comes_from(rule: Rule) -> None:
    """The comment above the rule speaks of every number in its conditions that is no window."""
    lines = _text(rule).splitlines()
    at = rule.position.line - 1
    comment: list[str] = []
    while at and lines[at - 1].lstrip().startswith("#"):
        at -= 1
        comment.insert(0, lines[at])
    told = " ".join(comment)
    for condition in (rule.condition, rule.clear):
        text = getattr(condition, "text", "")
        for number in re.findall(r"[<>]=? *(\d+)%", text):
            assert re.search(rf"\b{number} %", told), f"{number} %"
    assert told


@cache
def _file(path: str) -> str:
    with open(path, encoding="utf-8") as file:  # noqa: PTH123 - the path as the rule holds it
        return file.read()


def _text(rule: Rule) -> str:
    return _file(rule.position.path)


def test_the_pack_has_nothing_to_warn_of() -> None:
    assert [str(problem) for problem in lint(pack(), REGISTRY)] == []


def test_the_pack_keeps_no_more_than_fifteen_minutes_of_single_samples() -> None:
    retention = retention_for(pack().expressions(), 10.0)
    assert retention.depth_s <= 900.0
    assert list(retention.minutes) == [("gpu", "ofu")]


def test_a_healthy_job_of_eight_gpus_with_checkpoints_is_quiet() -> None:
    rules = pack()
    (past,) = backtest(_healthy(5400.0), [rules], REGISTRY)
    assert past.ticks == 180
    assert past.episodes == []


def _healthy(length_s: float) -> list[tuple[float, list[Observation]]]:
    """A checkpoint of a minute every half hour."""
    ticks = []
    for number in range(int(length_s / 30.0)):
        now_s = START_S + 30.0 * number
        away = (number * 30.0) % 1800.0 >= 1740.0
        values = {
            "ofu": 0.0 if away else 0.43 + 0.01 * (number % 3),
            "gpu_util": 0.1 if away else 0.99,
            "tensor_active": 0.0 if away else 0.5,
            "sm_clock": 1.6e9,
            "clock_factor": 0.87,
            "power": 120.0 if away else 690.0,
            "power_limit": 700.0,
            "flop_limit": 989e12,
            "throttled:sw_thermal_slowdown": 0.0,
            "throttled:hw_thermal_slowdown": 0.0,
            "throttled:hw_power_brake_slowdown": 0.0,
        }
        window = Window(now_s - 30.0, now_s)
        ticks.append((now_s, [Observation(_gpu(i), window, values) for i in range(8)]))
    return ticks


def _gpu(number: int) -> Entity:
    attributes = {"hw.id": f"GPU-{number}", "ofu.job.id": "7", "ofu.gpu.sku": "h100-sxm5"}
    return Entity("gpu", f"GPU-{number}", attributes)
