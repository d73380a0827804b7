"""OTLP metrics in protobuf: bytes -> raw resources, with the offset of every number.

Enters: bytes, and the `RequestSizeCount` of what their request may hold. Leaves: `RawResource`s.
The offsets are what protobuf's own classes do not give, and what lets the next request of the same
layout be read without parsing it.

Field numbers. Source: opentelemetry-proto 1.9, metrics/v1/metrics.proto, common/v1/common.proto.
"""

from __future__ import annotations

import struct

from otel_ofu.model import Attribute
from otel_ofu.receive.points import (
    NO_RECORDED_VALUE,
    Attributes,
    Form,
    MalformedError,
    Offsets,
    RawPoint,
    RawResource,
    RequestSizeCount,
)
from otel_ofu.receive.protobuf import count_fields, fields

_DOUBLE = struct.Struct("<d")
_INT64 = struct.Struct("<q")
_UINT64 = struct.Struct("<Q")
_DELTA = 1
# Starting values: 4 MB of attributes that come again and again.
_MOST_KNOWN_ATTRIBUTES = 8192
_LONGEST_KNOWN_ATTRIBUTE = 512

_FORMS: dict[int, Form] = {
    0x2A: "gauge",
    0x3A: "sum",
    0x4A: "histogram",
    0x52: "exponential histogram",
    0x5A: "summary",
}
_LISTS = {0x2A: "ArrayValue", 0x32: "KeyValueList"}


def resource_slices(raw: bytes, count: RequestSizeCount) -> list[tuple[int, int]]:
    """Where each ResourceMetrics of a request lies. MalformedError if it is none."""
    found: list[tuple[int, int]] = []
    for tag, at, end in fields(raw, 0, len(raw), count):
        if tag == 0x0A:  # noqa: PLR2004 - field 1
            count.add("resources")
            found.append((at, end))
    return found


class WireReader:
    """Remembers attributes that come again and again. One thread at a time."""

    def __init__(self) -> None:
        self._known: dict[bytes, tuple[tuple[str, Attribute] | None, int]] = {}

    def resource(self, raw: bytes, start: int, end: int, count: RequestSizeCount) -> RawResource:
        """The ResourceMetrics in raw[start:end]; offsets count from `start`."""
        attributes: list[tuple[str, Attribute]] = []
        found = RawResource((), [], {})
        walk = _PointWalk(self, raw, start, found, count)
        for tag, at, stop in fields(raw, start, end, count):
            if tag == 0x0A:  # noqa: PLR2004 - ResourceMetrics.resource
                attributes += self.attributes(raw, at, stop, count)
            elif tag == 0x12:  # noqa: PLR2004 - ResourceMetrics.scope_metrics
                walk.scope(at, stop)
        found.attributes = tuple(attributes)
        return found

    def attributes(self, raw: bytes, at: int, end: int, count: RequestSizeCount) -> Attributes:
        """Those of the Resource in raw[at:end]."""
        pairs: list[tuple[str, Attribute]] = []
        for tag, begin, stop in fields(raw, at, end, count):
            if tag == 0x0A:  # noqa: PLR2004 - Resource.attributes
                pair = self.attribute(raw[begin:stop], count)
                if pair is not None:
                    pairs.append(pair)
            elif tag == 0x1A:  # noqa: PLR2004 - Resource.entity_refs
                count_fields(raw, (begin, stop), "EntityRef", count)
        return tuple(pairs)

    def attribute(self, pair: bytes, count: RequestSizeCount) -> tuple[str, Attribute] | None:
        """A KeyValue; None when its value is a list, a map, bytes or nothing.

        One that is known counts as it did before: it may hold hundreds of empty messages.
        """
        known = self._known.get(pair)
        if known is not None:
            count.fields_left -= known[1]
            return known[0]
        before = count.fields_left
        read = _key_value(pair, count)
        if len(pair) <= _LONGEST_KNOWN_ATTRIBUTE:
            if len(self._known) >= _MOST_KNOWN_ATTRIBUTES:
                self._known.clear()
            self._known[pair] = read, before - count.fields_left
        return read


class _PointWalk:
    """The points of one resource."""

    def __init__(
        self,
        reader: WireReader,
        raw: bytes,
        start: int,
        found: RawResource,
        count: RequestSizeCount,
    ) -> None:
        self._reader = reader
        self._raw = raw
        self._start = start
        self._found = found
        self._count = count

    def scope(self, at: int, end: int) -> None:
        self._count.add("scopes")
        for tag, begin, stop in fields(self._raw, at, end, self._count):
            if tag == 0x12:  # noqa: PLR2004 - ScopeMetrics.metrics
                self.metric(begin, stop)
            elif tag == 0x0A:  # noqa: PLR2004 - ScopeMetrics.scope
                count_fields(self._raw, (begin, stop), "InstrumentationScope", self._count)

    def metric(self, at: int, end: int) -> None:
        self._count.add("metrics")
        name, unit, parts = "", "", list[tuple[Form, int, int]]()
        for tag, begin, stop in fields(self._raw, at, end, self._count):
            if tag == 0x0A:  # noqa: PLR2004 - Metric.name
                name = _text(self._raw[begin:stop])
            elif tag == 0x1A:  # noqa: PLR2004 - Metric.unit
                unit = _text(self._raw[begin:stop])
            elif tag in _FORMS:
                parts.append((_FORMS[tag], begin, stop))
            elif tag == 0x62:  # noqa: PLR2004 - Metric.metadata
                count_fields(self._raw, (begin, stop), "KeyValue", self._count)
        for form, begin, stop in parts:
            self._points(name, unit, form, (begin, stop))
        if not parts:
            self._unread("empty", name, 1)

    def _points(self, name: str, unit: str, form: Form, span: tuple[int, int]) -> None:
        spans = list[tuple[int, int]]()
        for tag, begin, stop in fields(self._raw, *span, self._count):
            if tag == 0x0A:  # noqa: PLR2004 - data_points, in all five forms
                self._count.add("points")
                spans.append((begin, stop))
            elif tag == 0x10 and form == "sum" and begin == _DELTA:  # noqa: PLR2004 - Sum.aggregation_temporality
                form = "delta"
        if form not in ("gauge", "sum", "delta"):
            self._unread(form, name, len(spans))
            for each in spans:
                count_fields(self._raw, each, form, self._count)
            return
        for begin, stop in spans:
            self._found.points.append(self._point(name, unit, form, (begin, stop)))

    def _unread(self, form: Form, name: str, count: int) -> None:
        unread = self._found.unread
        unread[form, name] = unread.get((form, name), 0) + count

    def _point(self, name: str, unit: str, form: Form, span: tuple[int, int]) -> RawPoint:  # noqa: C901 - one branch a field of the message
        raw, attributes, flags = self._raw, list[tuple[str, Attribute]](), 0
        value_at = time_at = start_at = -1
        is_int = False
        for tag, begin, stop in fields(raw, *span, self._count):
            match tag:
                case 0x3A:
                    pair = self._reader.attribute(raw[begin:stop], self._count)
                    if pair is not None:
                        attributes.append(pair)
                case 0x19:
                    time_at = begin
                case 0x11:
                    start_at = begin
                case 0x21:
                    value_at, is_int = begin, False
                case 0x31:
                    value_at, is_int = begin, True
                case 0x40:
                    flags = begin
                case 0x2A:
                    count_fields(raw, (begin, stop), "Exemplar", self._count)
                case _:
                    pass
        return RawPoint(
            name,
            unit,
            form,
            tuple(attributes),
            _UINT64.unpack_from(raw, time_at)[0] if time_at >= 0 else 0,
            self._value(value_at, is_int=is_int),
            is_int,
            bool(flags & NO_RECORDED_VALUE),
            self._offsets(value_at, time_at, start_at),
        )

    def _value(self, at: int, *, is_int: bool) -> float | None:
        if at < 0:
            return None
        return float((_INT64 if is_int else _DOUBLE).unpack_from(self._raw, at)[0])

    def _offsets(self, *found: int) -> Offsets:
        return Offsets(*(at - self._start if at >= 0 else -1 for at in found))


def _key_value(pair: bytes, count: RequestSizeCount) -> tuple[str, Attribute] | None:
    name, value = "", None
    for tag, begin, stop in fields(pair, 0, len(pair), count):
        if tag == 0x0A:  # noqa: PLR2004 - KeyValue.key
            name = _text(pair[begin:stop])
        elif tag == 0x12:  # noqa: PLR2004 - KeyValue.value
            value = _any_value(pair, begin, stop, count)
    return None if value is None or not name else (name, value)


def _any_value(raw: bytes, at: int, end: int, count: RequestSizeCount) -> Attribute | None:
    value: Attribute | None = None
    for tag, begin, stop in fields(raw, at, end, count):
        match tag:
            case 0x0A:
                value = _text(raw[begin:stop])
            case 0x10:
                value = bool(begin)
            case 0x18:
                value = begin - (1 << 64) if begin >> 63 else begin
            case 0x21:
                value = float(_DOUBLE.unpack_from(raw, begin)[0])
            case 0x2A | 0x32:  # array_value, kvlist_value
                count_fields(raw, (begin, stop), _LISTS[tag], count)
                value = None
            case _:
                value = None
    return value


def _text(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise MalformedError("a name or an attribute is not UTF-8") from error
