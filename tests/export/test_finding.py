"""A finding as an OpenTelemetry event."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from otel_ofu.catalog.registry import load_registry
from otel_ofu.export.logs import encode_logs, finding_event
from otel_ofu.model import Entity, Evidence, Finding, RankedCause

REGISTRY = load_registry()
GPU = Entity("gpu", "GPU-1", {"hw.id": "GPU-1", "host.name": "n1"})


def finding(**other: object) -> Finding:
    evidence = (
        Evidence("avg(ofu, 10m) < 15%", "ofu", 0.08, 0.15, 600.0, 0.9),
        Evidence("throttled:thermal > 0", "throttled.thermal", None, 0.0),
        Evidence("flag(NCCL_DEBUG)", "flag.NCCL_DEBUG", 1.0, 0.0),
    )
    base = Finding(
        kind="opened",
        rule="LowOfu",
        each="gpu",
        entity=GPU,
        fingerprint="00ff",
        at_s=1_728_000_600.5,
        since_s=1_728_000_000.0,
        fired_s=1_728_000_600.5,
        summary="it is low",
        value=0.08,
        threshold=0.15,
        severity="error",
        evidence=evidence,
        labels={"severity": "error", "team": "x"},
        annotations={"summary": "it is low", "cause": "Slow loader"},
        link="https://example.org",
        incident="0a0b",
        facts={"gpus": 8.0},
        causes=[
            RankedCause(
                "loader",
                "Slow loader",
                0.8,
                evidence=["CPU 97 %"],
                unchecked=["PID 7"],
                next_steps=["a", "b"],
            ),
            RankedCause("memory", "Memory", 0.3),
        ],
    )
    return replace(base, **other)


def test_everything_essential_is_in_flat_attributes() -> None:
    event = finding_event(finding())
    assert (event.name, event.severity_number, event.severity_text, event.body) == (
        "ofu.finding.opened",
        17,
        "error",
        "it is low",
    )
    assert (event.entity, event.time_s) == (GPU, 1_728_000_600.5)
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
        "ofu.finding.incident": "0a0b",
        "ofu.finding.label.severity": "error",
        "ofu.finding.label.team": "x",
        "ofu.finding.annotation.summary": "it is low",
        "ofu.finding.annotation.cause": "Slow loader",
        "ofu.evidence.condition": "avg(ofu, 10m) < 15%",
        "ofu.evidence.value": 0.08,
        "ofu.evidence.threshold": 0.15,
        "ofu.evidence.window": 600.0,
        "ofu.evidence.coverage": 0.9,
        "ofu.evidence.ofu": 0.08,
        "ofu.evidence.flag.NCCL_DEBUG": 1.0,
        "ofu.evidence.gpus": 8.0,
        "ofu.finding.cause": "loader",
        "ofu.finding.cause.title": "Slow loader",
        "ofu.finding.cause.confidence": 0.8,
        "ofu.finding.cause.evidence": "CPU 97 %",
        "ofu.finding.cause.unchecked": "PID 7",
        "ofu.finding.cause.next_steps": "a\nb",
        "ofu.finding.cause.2": "memory",
        "ofu.finding.cause.2.title": "Memory",
        "ofu.finding.cause.2.confidence": 0.3,
    }


def test_what_is_always_there_is_in_the_registry() -> None:
    families = (
        "ofu.finding.label.",
        "ofu.finding.annotation.",
        "ofu.finding.cause",
        "ofu.evidence.",
    )
    for name in finding_event(finding()).attributes:
        if name not in REGISTRY.attributes:
            assert name.startswith(families), name


@pytest.mark.parametrize(
    ("severity", "number"), [("info", 9), ("warning", 13), ("error", 17), ("critical", 18)]
)
def test_an_event_has_the_severity_of_the_finding_and_an_end_is_information(
    severity: str, number: int
) -> None:
    event = finding_event(finding(severity=severity))
    assert (event.severity_number, event.severity_text) == (number, severity)
    ended = finding(severity=severity, kind="resolved", reason="no_data", evidence=(), value=None)
    event = finding_event(ended)
    assert (event.name, event.severity_number, event.severity_text) == (
        "ofu.finding.resolved",
        9,
        "info",
    )
    assert event.attributes["ofu.finding.severity"] == severity
    assert event.attributes["ofu.finding.reason"] == "no_data"
    assert "ofu.evidence.value" not in event.attributes


def test_of_two_comparisons_on_one_metric_the_first_counts() -> None:
    first, *_ = finding().evidence
    twice = (first, replace(first, value=0.5))
    assert finding_event(finding(evidence=twice)).attributes["ofu.evidence.ofu"] == 0.08


def test_a_summary_speaks_of_many_and_of_no_entity() -> None:
    event = finding_event(finding(entity=None, count=40, evidence=()))
    assert event.entity is None
    assert event.attributes["ofu.finding.count"] == 40


def test_an_event_is_encoded_with_its_severity() -> None:
    (sent,) = encode_logs([finding_event(finding())], {"service.name": "otel-ofu"})
    assert b"ofu.finding.opened" in sent.raw()
    assert b"error" in sent.raw()
