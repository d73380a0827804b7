"""Events to OTLP logs: a LogRecord with `event_name` under the resource of its entity.

Enters: events and the resource attributes that all share. Leaves: bodies to send, in order.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
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
from otel_ofu.model import Attribute
from otel_ofu.model.event import Event
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
