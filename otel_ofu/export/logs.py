"""Events to OTLP logs, and a finding as an event: name, severity, text for people, flat attributes.

Enters: events and the resource attributes that all share; a finding that opened, changed or ended.
Leaves: bodies to send, in order, each event a LogRecord with `event_name` under the resource of its
entity; the event of a finding.
Source: OpenTelemetry semantic conventions 1.44, docs/general/events.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import cast

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, InstrumentationScope
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord, ResourceLogs, ScopeLogs, SeverityNumber

from otel_ofu.export.request import EncodedResource, RequestLimits, bundle
from otel_ofu.export.resource import (
    SCOPE_NAME,
    EntityKey,
    entity_key,
    key_values,
    resource_of,
    unix_nano,
)
from otel_ofu.model import Attribute, Finding, RankedCause, Severity
from otel_ofu.model.event import CRITICAL, ERROR, INFO, WARN, Event
from otel_ofu.outbox.batch import Body


def encode_logs(
    events: Iterable[Event], common: Mapping[str, Attribute], scope_version: str = ""
) -> list[Body]:
    """The events grouped by entity; within one entity they keep their order."""
    groups: dict[EntityKey | None, list[Event]] = {}
    for event in events:
        key = entity_key(event.entity) if event.entity else None
        groups.setdefault(key, []).append(event)
    resources = (_encoded(group, common, scope_version) for group in groups.values())
    return bundle("logs", resources, RequestLimits())


def _encoded(
    events: Sequence[Event], common: Mapping[str, Attribute], scope_version: str
) -> EncodedResource:
    scope = InstrumentationScope(name=SCOPE_NAME, version=scope_version)
    resource_logs = ResourceLogs(
        resource=resource_of(common, events[0].entity),
        scope_logs=[ScopeLogs(scope=scope, log_records=[_record(e) for e in events])],
    )
    request = ExportLogsServiceRequest(resource_logs=[resource_logs])
    return EncodedResource(request.SerializeToString(), len(events))


def _record(event: Event) -> LogRecord:
    time_ns = unix_nano(event.time_s)
    return LogRecord(
        time_unix_nano=time_ns,
        observed_time_unix_nano=time_ns,
        severity_number=cast("SeverityNumber.ValueType", event.severity_number),
        severity_text=event.severity_text,
        body=AnyValue(string_value=event.body),
        attributes=key_values(event.attributes),
        event_name=event.name,
    )


SEVERITY_NUMBERS: Mapping[Severity, int] = {
    "info": INFO,
    "warning": WARN,
    "error": ERROR,
    "critical": CRITICAL,
}
MOST_CAUSES = 3
"""As many as diagnosis ranks; attributes are flat, so their number has to be bounded."""


def finding_event(finding: Finding) -> Event:
    """The event. An end is INFO, all else has the severity of the finding."""
    severity = "info" if finding.kind == "resolved" else finding.severity
    return Event(
        name=f"ofu.finding.{finding.kind}",
        severity_number=SEVERITY_NUMBERS[severity],
        severity_text=severity,
        body=finding.summary or finding.rule,
        time_s=finding.at_s,
        attributes=dict(_attributes(finding)),
        entity=finding.entity,
    )


def _attributes(finding: Finding) -> Iterator[tuple[str, Attribute]]:
    yield "ofu.finding.id", finding.fingerprint
    yield "ofu.rule.id", finding.rule
    yield "ofu.rule.shadow", finding.shadow
    yield "ofu.finding.severity", finding.severity
    yield "ofu.finding.state", "resolved" if finding.kind == "resolved" else "firing"
    yield "ofu.finding.start_time", _time(finding.since_s)
    if finding.fired_s is not None:
        yield "ofu.finding.fired_time", _time(finding.fired_s)
    yield "ofu.finding.count", finding.count
    yield "ofu.finding.summary", finding.summary
    for name, text in (
        ("reason", finding.reason),
        ("link", finding.link),
        ("incident", finding.incident),
    ):
        if text:
            yield f"ofu.finding.{name}", text
    for name, text in finding.labels.items():
        yield f"ofu.finding.label.{name}", text
    for name, text in finding.annotations.items():
        yield f"ofu.finding.annotation.{name}", text
    yield from _evidence(finding)
    for rank, cause in enumerate(finding.causes[:MOST_CAUSES]):
        yield from _cause(cause, f"ofu.finding.cause.{rank + 1}" if rank else "ofu.finding.cause")


def _evidence(finding: Finding) -> Iterator[tuple[str, Attribute]]:
    if finding.evidence:
        yield "ofu.evidence.condition", finding.evidence[0].condition
    for name, number in (
        ("value", finding.value),
        ("threshold", finding.threshold),
        ("window", finding.window_s),
        ("coverage", finding.coverage),
    ):
        if number is not None:
            yield f"ofu.evidence.{name}", number
    for evidence in reversed(finding.evidence):  # of two on one metric the first counts
        if evidence.value is not None:
            yield f"ofu.evidence.{evidence.metric}", evidence.value
    for name, value in finding.facts.items():
        yield f"ofu.evidence.{name}", value


def _cause(cause: RankedCause, prefix: str) -> Iterator[tuple[str, Attribute]]:
    """The first cause has the plain names; all are flat, as backends want them."""
    yield prefix, cause.id
    yield f"{prefix}.title", cause.title
    yield f"{prefix}.confidence", cause.score
    for name, texts in (
        ("evidence", cause.evidence),
        ("unchecked", cause.unchecked),
        ("next_steps", cause.next_steps),
    ):
        if texts:
            yield f"{prefix}.{name}", "\n".join(texts)


def _time(time_s: float) -> str:
    return datetime.fromtimestamp(time_s, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
