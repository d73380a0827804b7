"""OTLP requests: packed into bodies, unpacked, halved, kept small.

Enters: OTLP messages, or a body. Leaves: `Body` values, or the message again.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.logs.v1.logs_pb2 import ResourceLogs
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric, ResourceMetrics

from otel_ofu.outbox.batch import Body

Request = ExportMetricsServiceRequest | ExportLogsServiceRequest


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """What one request may hold before compression; a single resource is never cut.

    Starting values: half of the 4 MiB that gRPC servers take by default, and the batch size that
    the Collector's batch processor sends (8,192), rounded up.
    """

    max_bytes: int = 2_000_000
    max_points: int = 10_000


@dataclass(frozen=True, slots=True)
class EncodedResource:
    """A serialised request with one resource."""

    raw: bytes
    points: int


def pack(request: Request) -> Body:
    """The request as a body; the same request gives the same bytes."""
    signal = "metrics" if isinstance(request, ExportMetricsServiceRequest) else "logs"
    return _packed(signal, [EncodedResource(request.SerializeToString(), points_of(request))])


def bundle(signal: str, resources: Iterable[EncodedResource], limits: RequestLimits) -> list[Body]:
    """The resources in their order, in as few requests as the limits allow."""
    bodies: list[Body] = []
    group: list[EncodedResource] = []
    room_bytes, room_points = limits.max_bytes, limits.max_points
    for resource in resources:
        if group and (len(resource.raw) > room_bytes or resource.points > room_points):
            bodies.append(_packed(signal, group))
            group, room_bytes, room_points = [], limits.max_bytes, limits.max_points
        group.append(resource)
        room_bytes -= len(resource.raw)
        room_points -= resource.points
    return [*bodies, _packed(signal, group)] if group else bodies


def _packed(signal: str, resources: Sequence[EncodedResource]) -> Body:
    """Serialised requests one after the other are one request with the resources of all.

    That is how protobuf reads repeated fields, so nothing is parsed or copied to merge them.
    """
    raw = b"".join(resource.raw for resource in resources)
    points = sum(resource.points for resource in resources)
    return Body.of(signal, raw, points)


def unpack(body: Body) -> Request:
    """The request again. ValueError for a signal that OTLP does not have."""
    if body.signal == "metrics":
        return ExportMetricsServiceRequest.FromString(body.raw())
    if body.signal == "logs":
        return ExportLogsServiceRequest.FromString(body.raw())
    raise ValueError(f"{body.signal!r} is not an OTLP signal; allowed: metrics, logs")


def halves(body: Body) -> tuple[Body, Body] | None:
    """The body as two with half of the resources each; None if it cannot be divided so."""
    try:
        request = unpack(body)
    except (ValueError, DecodeError, zlib.error):
        return None
    resources = _resources(request)
    middle = len(resources) // 2
    if not middle:
        return None
    return pack(_request_of(resources[:middle])), pack(_request_of(resources[middle:]))


def points_of(request: Request) -> int:
    """Data points, or log records, in a request."""
    return sum(_points_of_resource(r) for r in _resources(request))


def _resources(request: Request) -> Sequence[ResourceMetrics | ResourceLogs]:
    if isinstance(request, ExportMetricsServiceRequest):
        return request.resource_metrics
    return request.resource_logs


def _request_of(resources: Sequence[ResourceMetrics | ResourceLogs]) -> Request:
    metrics = [r for r in resources if isinstance(r, ResourceMetrics)]
    if metrics:
        return ExportMetricsServiceRequest(resource_metrics=metrics)
    logs = [r for r in resources if isinstance(r, ResourceLogs)]
    return ExportLogsServiceRequest(resource_logs=logs)


def _points_of_resource(resource: ResourceMetrics | ResourceLogs) -> int:
    if isinstance(resource, ResourceLogs):
        return sum(len(scope.log_records) for scope in resource.scope_logs)
    return sum(_points_of_metric(m) for scope in resource.scope_metrics for m in scope.metrics)


def _points_of_metric(metric: Metric) -> int:
    kind = metric.WhichOneof("data")
    return len(getattr(metric, kind).data_points) if kind else 0
