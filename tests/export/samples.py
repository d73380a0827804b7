"""Observations and bodies that the tests of export share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.metrics.v1.metrics_pb2 import NumberDataPoint

from otel_ofu.catalog.registry import load_registry
from otel_ofu.export.metrics import EncoderOptions, MetricEncoder
from otel_ofu.export.request import RequestLimits, unpack
from otel_ofu.model import Attribute, Entity, Observation, Window
from otel_ofu.outbox.batch import Body

START_S = 1_700_000_000.0
COMMON: Mapping[str, Attribute] = {"service.name": "otel-ofu", "host.name": "node-1"}


def gpu(uuid: str = "GPU-1", job: str = "77", **attributes: Attribute) -> Entity:
    known = {"hw.id": uuid, "ofu.precision": "bf16", "ofu.gpu.sku": "h100-sxm5"}
    return Entity("gpu", f"{uuid}/{job}", {**known, "ofu.job.id": job, **attributes})


def seen(
    entity: Entity,
    tick: int,
    values: Mapping[str, float],
    starts_s: Mapping[str, float] | None = None,
) -> Observation:
    """What is known after tick 1, 2, ... of 10 s each."""
    end_s = START_S + 10.0 * tick
    return Observation(entity, Window(end_s - 10.0, end_s), values, starts_s=starts_s or {})


def encoder(limits: RequestLimits | None = None) -> MetricEncoder:
    options = EncoderOptions(START_S, "1.2.3", limits=limits or RequestLimits())
    return MetricEncoder(load_registry(), COMMON, options)


def body(value: float = 0.5, gpus: int = 1) -> Body:
    """One request with one point per GPU."""
    (made,) = encoder().encode([seen(gpu(f"GPU-{i}"), 1, {"ofu": value}) for i in range(gpus)])
    return made


def request(sent: Body) -> ExportMetricsServiceRequest:
    unpacked = unpack(sent)
    assert isinstance(unpacked, ExportMetricsServiceRequest)
    return unpacked


def attributes(pairs: Iterable[Any]) -> dict[str, Attribute]:
    return {p.key: getattr(p.value, p.value.WhichOneof("value")) for p in pairs}


def points(bodies: Iterable[Body]) -> list[tuple[str, str, NumberDataPoint]]:
    """(service.instance.id / job, metric name, point) of all that was encoded, in order."""
    found = []
    for sent in bodies:
        for resource in request(sent).resource_metrics:
            known = attributes(resource.resource.attributes)
            owner = f"{known['service.instance.id']}/{known.get('ofu.job.id', '')}"
            for metric in resource.scope_metrics[0].metrics:
                kind = getattr(metric, str(metric.WhichOneof("data")))
                found += [(owner, metric.name, point) for point in kind.data_points]
    return found


def values(bodies: Iterable[Body]) -> list[float]:
    return [point.as_double for _, _, point in points(bodies)]
