"""Whatever the program emits is in the registry, with that unit and those attributes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric as OtlpMetric

from otel_ofu.app.prepare import deriver
from otel_ofu.catalog.registry import Registry, load_registry
from otel_ofu.config import Gpu
from otel_ofu.export.agent import AgentMetrics
from otel_ofu.export.metrics import EncoderOptions, MetricEncoder
from otel_ofu.model import Reading
from otel_ofu.outbox.batch import Body
from otel_ofu.outbox.queues import QueueStats
from otel_ofu.sources.demo import DemoSource
from tests.sources.nvml.rig import Rig, Stub

KINDS = {"gauge": "gauge", "counter": "sum", "updown": "sum", "histogram": "histogram"}
TYPES = {
    "string": "string_value",
    "int": "int_value",
    "double": "double_value",
    "boolean": "bool_value",
}


def requests(readings: Sequence[Reading]) -> Iterator[Body]:
    derived = deriver(Gpu(), "node-1")
    encoder = MetricEncoder(
        load_registry(), {"service.name": "otel-ofu", "service.version": "0"}, EncoderOptions(0.0)
    )
    parents = {reading.device.uuid: reading for reading in readings}
    observations = [derived.derive(r, parents.get(r.device.parent)) for r in readings]
    yield from encoder.encode(observations)
    yield from encoder.encode(())


def test_of_the_demo() -> None:
    check(requests(DemoSource("tour", start_s=0.0).read(400.0)))


@pytest.mark.parametrize("script", [{}, {"gpu0__mig": 1, "gpu0__instances": 2}])
def test_of_the_driver(stub: Stub, rig: Rig, script: dict[str, float]) -> None:
    stub.set(gpus=2, **script)
    rig.open()
    rig.read()
    stub.xid(0, 79)
    check(requests([*rig.read().values()]))


@pytest.fixture
def stub(stub_library: Path) -> Stub:
    return Stub(stub_library)


@pytest.fixture
def rig(stub: Stub) -> Iterator[Rig]:
    rig = Rig(stub)
    yield rig
    rig.close()


def test_of_the_agent_itself() -> None:
    metrics = AgentMetrics(load_registry(), {"service.name": "otel-ofu"}, "id")
    metrics.sampled("nvml", 0.01)
    metrics.missed("nvml", "late")
    metrics.cost("nvml", {"clock_sampler_time": 0.5, "clock_sampler_interval": 0.2})
    metrics.troubled("scrape", "http://b/metrics", "failed")
    metrics.answered("scrape", {"http://b/metrics": False})
    metrics.exported("otlp", "sent", 5)
    metrics.watch("store", lambda: {"stored": 5, "late": 1})
    metrics.judged(0.1, 0.0)
    body = metrics.collect({"otlp": QueueStats(1, 2, {})})
    metrics.close()
    assert body is not None
    check(iter([body]))


def check(bodies: Iterator[Body]) -> None:
    """Every metric, resource attribute and point attribute against the registry."""
    registry = load_registry()
    seen = 0
    for body in bodies:
        request = ExportMetricsServiceRequest.FromString(body.raw())
        for resource in request.resource_metrics:
            check_attributes(registry, resource.resource.attributes, ("resource", "both"))
            for scope in resource.scope_metrics:
                for metric in scope.metrics:
                    check_metric(registry, metric)
                    seen += 1
    assert seen > 0


def check_metric(registry: Registry, metric: OtlpMetric) -> None:
    rows = [m for m in registry.metrics.values() if m.name == metric.name]
    assert rows, metric.name
    assert metric.unit == rows[0].unit, metric.name
    assert metric.WhichOneof("data") == KINDS[rows[0].kind], metric.name
    allowed = {"hw.id"} | {
        name for m in rows for name in [*m.attributes, *m.labels, *m.points_with]
    }
    for point in getattr(metric, KINDS[rows[0].kind]).data_points:
        check_attributes(registry, point.attributes, ("point", "both"))
        assert {attribute.key for attribute in point.attributes} <= allowed, metric.name


def check_attributes(
    registry: Registry, attributes: Sequence[KeyValue], places: tuple[str, str]
) -> None:
    for attribute in attributes:
        known = registry.attributes.get(attribute.key)
        assert known is not None, attribute.key
        assert known.where in places, attribute.key
        kind = attribute.value.WhichOneof("value")
        assert kind == TYPES[known.type], attribute.key
        if known.values:
            assert attribute.value.string_value in known.values, attribute.key


def test_names_of_the_registry_follow_the_conventions() -> None:
    registry = load_registry()
    names = {metric.name for metric in registry.metrics.values()}
    # A metric name is no namespace of another; what is neither ours nor of hardware is of the host.
    spaces = [n for n in names if any(other.startswith(f"{n}.") for other in names)]
    assert spaces == ["ofu.gpu.utilization"]  # beside it: how it was got, and its uncertainty
    assert [n for n in names if not n.startswith(("ofu.", "hw.", "system."))] == []
    used = {
        name
        for metric in registry.metrics.values()
        for name in [*metric.attributes, *metric.labels, *metric.points_with]
    }
    assert used <= set(registry.attributes)
