"""Events become log records that a backend can work with."""

from __future__ import annotations

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest

from otel_ofu.export.logs import encode_logs
from otel_ofu.export.request import unpack
from otel_ofu.model.event import WARN, Event
from tests.export.samples import COMMON, attributes, gpu


def decoded(*events: Event) -> ExportLogsServiceRequest:
    (body,) = encode_logs(events, COMMON, "1.2.3")
    assert body.points == len(events)
    request = unpack(body)
    assert isinstance(request, ExportLogsServiceRequest)
    return request


def test_an_event_is_a_log_record_with_a_name_under_the_resource_of_its_entity() -> None:
    event = Event("ofu.finding.opened", WARN, "slow", 1_700_000_000.5, {"ofu.rule.id": "r"}, gpu())
    (resource,) = decoded(event).resource_logs
    assert attributes(resource.resource.attributes)["service.instance.id"] == "GPU-1"
    (record,) = resource.scope_logs[0].log_records
    assert record.event_name == "ofu.finding.opened"
    assert (record.severity_number, record.severity_text) == (13, "")
    assert record.body.string_value == "slow"
    assert record.time_unix_nano == record.observed_time_unix_nano == 1_700_000_000_500_000_000
    assert attributes(record.attributes) == {"ofu.rule.id": "r"}


def test_events_of_one_entity_share_a_resource_and_keep_their_order() -> None:
    events = [Event(f"e{i}", WARN, "", float(i), entity=gpu(f"GPU-{i % 2}")) for i in range(4)]
    found = [
        [record.event_name for record in resource.scope_logs[0].log_records]
        for resource in decoded(*events).resource_logs
    ]
    assert found == [["e0", "e2"], ["e1", "e3"]]


def test_an_event_without_entity_speaks_of_the_agent() -> None:
    (resource,) = decoded(Event("ofu.agent.degraded", WARN, "", 1.0)).resource_logs
    assert attributes(resource.resource.attributes) == dict(COMMON)


def test_no_events_are_no_request() -> None:
    assert encode_logs([], COMMON) == []
