"""Requests as agents, SDKs and Collectors make them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from google.protobuf.json_format import MessageToJson
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.metrics.v1.metrics_pb2 import (
    Gauge,
    Metric,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.proto.resource.v1.resource_pb2 import Resource

from otel_ofu.catalog.registry import load_registry
from otel_ofu.export.metrics import EncoderOptions, MetricEncoder
from otel_ofu.model import Attribute, Entity, Observation, Window

T0 = 1_700_000_000.0
COMMON: Mapping[str, Attribute] = {
    "service.name": "otel-ofu",
    "service.version": "1.0",
    "host.name": "node-1",
}


def gpu(number: int, job: str = "4711") -> Entity:
    uuid = f"GPU-{number:04d}"
    attributes: dict[str, Attribute] = {
        "host.name": "node-1",
        "hw.id": uuid,
        "hw.model": "NVIDIA H100 80GB HBM3",
        "ofu.gpu.index": number,
        "ofu.gpu.sku": "h100-sxm5",
        "ofu.reference_clock": 1.83e9,
        "ofu.precision": "bf16",
        "ofu.job.id": job,
    }
    return Entity("gpu", f"{uuid}/{job}", attributes)


def values(tick: int = 1) -> dict[str, float]:
    return {
        "ofu": 0.25 + tick / 1000,
        "tensor_active": 0.5,
        "flop_count": 5e15 * tick,
        "flop_limit": 9.9e14,
        "throttle_time:thermal": 0.125 * tick,
        "throttled:gpu_idle": 0.0,
        "xid:79": 1.0,
        "ecc_corrected": 3.0,
        "energy": 1e6 + tick,
        "mem_used": 8e10,
        "gpu_util": 1.0,
        "sm_clock": 1.7e9,
    }


def seen(entity: Entity, tick: int = 1, given: Mapping[str, float] | None = None) -> Observation:
    end_s = T0 + 10.0 * tick
    found = values(tick) if given is None else given
    return Observation(entity, Window(end_s - 10.0, end_s), found, starts_s={"flop_count": T0})


def encoder() -> MetricEncoder:
    return MetricEncoder(load_registry(), COMMON, EncoderOptions(T0, "1.0"))


def ticks(observations: Sequence[Sequence[Observation]]) -> list[bytes]:
    """One body for each round of an agent."""
    one = encoder()
    return [body.raw() for round_ in observations for body in one.encode(round_)]


def key_values(attributes: Mapping[str, Attribute]) -> list[KeyValue]:
    return [KeyValue(key=name, value=_any(value)) for name, value in attributes.items()]


def _any(value: Attribute) -> AnyValue:
    match value:
        case bool():
            return AnyValue(bool_value=value)
        case int():
            return AnyValue(int_value=value)
        case float():
            return AnyValue(double_value=value)
        case _:
            return AnyValue(string_value=value)


def point(
    value: float | None, attributes: Mapping[str, Attribute] | None = None, time_s: float = T0
) -> NumberDataPoint:
    made = NumberDataPoint(
        time_unix_nano=round(time_s * 1e9), attributes=key_values(attributes or {})
    )
    if value is None:
        return made
    if type(value) is float:
        made.as_double = value
    else:
        made.as_int = int(value)
    return made


def gauge(name: str, *points: NumberDataPoint, unit: str = "1") -> Metric:
    return Metric(name=name, unit=unit, gauge=Gauge(data_points=points))


def counter(name: str, *points: NumberDataPoint, temporality: int = 2) -> Metric:
    made = Sum(data_points=points, is_monotonic=True)
    made.aggregation_temporality = temporality  # type: ignore[assignment]  # an enum of protobuf
    return Metric(name=name, sum=made)


def request(attributes: Mapping[str, Attribute], *metrics: Metric) -> ExportMetricsServiceRequest:
    return ExportMetricsServiceRequest(
        resource_metrics=[
            ResourceMetrics(
                resource=Resource(attributes=key_values(attributes)),
                scope_metrics=[ScopeMetrics(metrics=metrics)],
            )
        ]
    )


def body(attributes: Mapping[str, Attribute], *metrics: Metric) -> bytes:
    return request(attributes, *metrics).SerializeToString()


def as_json(raw: bytes) -> bytes:
    return MessageToJson(ExportMetricsServiceRequest.FromString(raw)).encode()
