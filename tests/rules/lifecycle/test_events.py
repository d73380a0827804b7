"""Findings as OpenTelemetry events: names, severities, flat attributes."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from otel_ofu.catalog.registry import load_registry
from otel_ofu.export.logs import encode_logs
from otel_ofu.model import Entity
from otel_ofu.model.event import Event
from otel_ofu.rules.language.language import parse_condition
from otel_ofu.rules.language.syntax import comparisons
from otel_ofu.rules.lifecycle.change import Change
from otel_ofu.rules.lifecycle.events import finding_event
from otel_ofu.rules.verdicts import Observed

REGISTRY = load_registry()
GPU = Entity("gpu", "GPU-1", {"hw.id": "GPU-1", "host.name": "n1"})
TEXT = "avg(ofu, 10m) < 15% and throttled:thermal > 0 and flag(NCCL_DEBUG)"


def change(**other: object) -> Change:
    nodes = comparisons(parse_condition(TEXT, "gpu", REGISTRY).root)
    evidence = (
        Observed(nodes[0], 1, 0.08, 0.15, 600.0, 0.9),
        Observed(nodes[1], -1, math.nan, 0.0, 0.0, math.nan),
        Observed(nodes[2], 1, 1.0, 0.0, 0.0, math.nan),
    )
    base = Change(
        kind="opened",
        rule="LowOfu",
        each="gpu",
        entity=GPU,
        fingerprint="00ff",
        at_s=1_728_000_600.5,
        since_s=1_728_000_000.0,
        fired_s=1_728_000_600.5,
        severity="error",
        evidence=evidence,
        labels={"severity": "error", "team": "x"},
        annotations={"summary": "it is low"},
        link="https://example.org",
    )
    return replace(base, **other)  # type: ignore[arg-type] # any field


def test_everything_essential_is_in_flat_attributes() -> None:
    event = finding_event(change(), Event)
    assert (event.name, event.severity_number, event.body) == (
        "ofu.finding.opened",
        17,
        "it is low",
    )
    assert event.entity is GPU
    assert event.attributes == {
        "ofu.finding.id": "00ff",
        "ofu.rule.id": "LowOfu",
        "ofu.rule.shadow": False,
        "ofu.finding.severity": "error",
        "ofu.finding.state": "firing",
        "ofu.finding.start_time": "2024-10-04T00:00:00.000000Z",
        "ofu.finding.fired_time": "2024-10-04T00:10:00.500000Z",
        "ofu.finding.count": 1,
        "ofu.finding.summary": "it is low",
        "ofu.finding.link": "https://example.org",
        "ofu.finding.label.severity": "error",
        "ofu.finding.label.team": "x",
        "ofu.finding.annotation.summary": "it is low",
        "ofu.evidence.condition": "avg(ofu, 10m) < 15%",
        "ofu.evidence.value": 0.08,
        "ofu.evidence.threshold": 0.15,
        "ofu.evidence.window": 600.0,
        "ofu.evidence.coverage": 0.9,
        "ofu.evidence.ofu": 0.08,
        "ofu.evidence.flag.NCCL_DEBUG": 1.0,
    }


def test_what_is_always_there_is_in_the_registry() -> None:
    families = ("ofu.finding.label.", "ofu.finding.annotation.", "ofu.evidence.")
    for name in finding_event(change(), Event).attributes:
        if name not in REGISTRY.attributes:
            assert name.startswith(families), name


@pytest.mark.parametrize(
    ("severity", "number"), [("info", 9), ("warning", 13), ("error", 17), ("critical", 17)]
)
def test_an_event_has_the_severity_of_the_rule_and_an_end_is_information(
    severity: str, number: int
) -> None:
    assert finding_event(change(severity=severity), Event).severity_number == number
    ended = change(severity=severity, kind="resolved", reason="no_data", evidence=())
    event = finding_event(ended, Event)
    assert (event.severity_number, event.name) == (9, "ofu.finding.resolved")
    assert event.body == "LowOfu on GPU-1 ended: no data"
    assert event.attributes["ofu.finding.reason"] == "no_data"
    assert "ofu.evidence.value" not in event.attributes


def test_of_two_comparisons_on_one_metric_the_first_counts() -> None:
    first, *_ = change().evidence
    twice = (first, replace(first, value=0.5))
    assert finding_event(change(evidence=twice), Event).attributes["ofu.evidence.ofu"] == 0.08


def test_a_summary_speaks_of_many_and_of_no_entity() -> None:
    event = finding_event(change(entity=None, count=40, annotations={}, evidence=()), Event)
    assert event.entity is None
    assert event.body == "LowOfu on 40 gpus"
    assert event.attributes["ofu.finding.count"] == 40


def test_an_event_can_be_encoded() -> None:
    (sent,) = encode_logs([finding_event(change(), Event)], {"service.name": "otel-ofu"})
    assert b"ofu.finding.opened" in sent.raw()
