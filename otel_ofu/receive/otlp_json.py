"""OTLP metrics in JSON: bytes -> raw resources.

Names are lowerCamelCase, 64-bit integers are strings or numbers, fields that are not known are
passed over. Source: opentelemetry-proto docs/specification.md, JSON Protobuf Encoding.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from otel_ofu.model import Attribute
from otel_ofu.receive.points import (
    NO_RECORDED_VALUE,
    Attributes,
    Form,
    MalformedError,
    RawPoint,
    RawResource,
    RequestSizeCount,
)

_Int = int | str | None
_DELTA = (1, "AGGREGATION_TEMPORALITY_DELTA")
_LARGEST_NS = 2**64


class _Object(msgspec.Struct, rename="camel"):
    """A JSON object of OTLP; null stands for absent."""


class _Any(_Object):
    string_value: str | None = None
    bool_value: bool | None = None
    int_value: _Int = None
    double_value: float | str | None = None


class _KeyValue(_Object):
    key: str = ""
    value: _Any | None = None


class _Point(_Object):
    attributes: list[_KeyValue] | None = None
    time_unix_nano: _Int = None
    as_double: float | str | None = None
    as_int: _Int = None
    flags: int | None = None


class _Numbers(_Object):
    data_points: list[_Point] | None = None
    aggregation_temporality: _Int = None


class _Others(_Object):
    data_points: list[msgspec.Raw] | None = None


class _Metric(_Object):
    name: str = ""
    unit: str | None = None
    gauge: _Numbers | None = None
    sum: _Numbers | None = None
    histogram: _Others | None = None
    exponential_histogram: _Others | None = None
    summary: _Others | None = None


class _Scope(_Object):
    metrics: list[_Metric] | None = None


class _Resource(_Object):
    attributes: list[_KeyValue] | None = None


class _ResourceMetrics(_Object):
    resource: _Resource | None = None
    scope_metrics: list[_Scope] | None = None


class _ExportRequest(_Object):
    resource_metrics: list[_ResourceMetrics] | None = None


_decoder = msgspec.json.Decoder(_ExportRequest)


def read_json(raw: bytes, count: RequestSizeCount) -> list[RawResource]:
    """The resources of a request. MalformedError has what is wrong, and where."""
    # Before it is decoded, which builds each value: one of these stands before every one of them.
    count.add("fields", sum(raw.count(mark) for mark in (b"[", b",", b":")))
    try:
        request = _decoder.decode(raw)
        resources = request.resource_metrics or ()
        count.add("resources", len(resources))
        return [_resource(found, count) for found in resources]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise MalformedError(f"no OTLP request in JSON: {error}") from error


def _resource(found: _ResourceMetrics, count: RequestSizeCount) -> RawResource:
    attributes = _attributes(found.resource.attributes if found.resource else None)
    points: list[RawPoint] = []
    unread: dict[tuple[Form, str], int] = {}
    scopes = found.scope_metrics or ()
    count.add("scopes", len(scopes))
    for scope in scopes:
        metrics = scope.metrics or ()
        count.add("metrics", len(metrics))
        for metric in metrics:
            before = len(points)
            points += _points(metric)
            count.add("points", len(points) - before)
            for form, number in _others(metric):
                unread[form, metric.name] = unread.get((form, metric.name), 0) + number
    return RawResource(attributes, points, unread)


def _points(metric: _Metric) -> Iterator[RawPoint]:
    forms: tuple[tuple[Form, _Numbers | None], ...] = (
        ("gauge", metric.gauge),
        ("sum", metric.sum),
    )
    for form, numbers in forms:
        if numbers is not None:
            delta = numbers.aggregation_temporality in _DELTA and form == "sum"
            for point in numbers.data_points or ():
                yield _point(metric, "delta" if delta else form, point)


def _point(metric: _Metric, form: Form, point: _Point) -> RawPoint:
    is_int = point.as_int is not None
    value = float(_integer(point.as_int)) if is_int else _double(point.as_double)
    time_ns = _integer(point.time_unix_nano)
    if not 0 <= time_ns < _LARGEST_NS:
        raise MalformedError(f"{time_ns} is not a time in nanoseconds")
    return RawPoint(
        metric.name,
        metric.unit or "",
        form,
        _attributes(point.attributes),
        time_ns,
        value,
        is_int,
        bool((point.flags or 0) & NO_RECORDED_VALUE),
    )


def _others(metric: _Metric) -> Iterator[tuple[Form, int]]:
    forms: tuple[tuple[Form, _Others | None], ...] = (
        ("histogram", metric.histogram),
        ("exponential histogram", metric.exponential_histogram),
        ("summary", metric.summary),
    )
    if not (metric.gauge or metric.sum or any(found for _, found in forms)):
        yield "empty", 1
    for form, found in forms:
        if found is not None:
            yield form, len(found.data_points or ())


def _attributes(pairs: list[_KeyValue] | None) -> Attributes:
    read = ((pair.key, _attribute(pair.value)) for pair in pairs or ())
    return tuple((name, value) for name, value in read if name and value is not None)


def _attribute(value: _Any | None) -> Attribute | None:
    if value is None:
        return None
    if value.string_value is not None:
        return value.string_value
    if value.bool_value is not None:
        return value.bool_value
    if value.int_value is not None:
        return _integer(value.int_value)
    return _double(value.double_value)


def _integer(value: _Int) -> int:
    try:
        return int(value or 0)
    except ValueError as error:
        raise MalformedError(f"{value!r:.40} is not an integer") from error


def _double(value: float | str | None) -> float | None:
    if value is None:
        return None
    try:
        return float(value)
    except ValueError as error:
        raise MalformedError(f"{value!r:.40} is not a number") from error
