"""Fields of protobuf messages, with their offsets.

Enters: bytes. Leaves: tags and spans. The offsets are what protobuf's own classes do not give.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from otel_ofu.receive.points import MalformedError, RequestSizeCount

Field = tuple[int, int, int]
"""Tag (number << 3 | wire type); the value of a varint, or where the content begins; where it
ends."""

_LONGEST_VARINT = 10
_MAX_DEPTH = 100
"""Messages in messages. Source: the default of protobuf's parser, which refuses more."""
_FIELDS_OF_A_MESSAGE = 6
"""To walk into a message takes as long as that many fields: 2 us and 0.3 us."""
_MORE = 0x80
"""Every byte of a varint but its last has this bit."""


_NONE: Mapping[int, str] = {}
_MESSAGES: Mapping[str, Mapping[int, str]] = {
    "AnyValue": {0x2A: "ArrayValue", 0x32: "KeyValueList"},
    "ArrayValue": {0x0A: "AnyValue"},
    "KeyValueList": {0x0A: "KeyValue"},
    "KeyValue": {0x12: "AnyValue"},
    "InstrumentationScope": {0x1A: "KeyValue"},
    "Exemplar": {0x3A: "KeyValue"},
    "histogram": {0x4A: "KeyValue", 0x42: "Exemplar"},
    "exponential histogram": {0x0A: "KeyValue", 0x42: "Buckets", 0x4A: "Buckets", 0x5A: "Exemplar"},
    "summary": {0x3A: "KeyValue", 0x32: "ValueAtQuantile"},
}
"""Messages that are not read, and those of which nothing but the text or number is: which of their
fields hold messages. Points go by their form.

Source: opentelemetry-proto 1.9, metrics/v1/metrics.proto, common/v1/common.proto.
"""


def fields(raw: bytes, at: int, end: int, count: RequestSizeCount) -> Iterator[Field]:
    """The fields of the message in raw[at:end], in their order.

    MalformedError if it is none, TooManyError when the request has more fields than it may.
    """
    while at < end:
        count.fields_left -= 1
        if count.fields_left < 0:
            raise count.too_many("fields")
        # Nearly all tags and lengths have one byte.
        tag, at = (raw[at], at + 1) if raw[at] < _MORE else _varint(raw, at, end)
        match tag & 7:
            case 2:
                is_short = at < end and raw[at] < _MORE
                length, at = (raw[at], at + 1) if is_short else _varint(raw, at, end)
                stop = at + length
            case 1:
                stop = at + 8
            case 0:
                value, stop = _varint(raw, at, end)
                yield tag, value, stop
                at = stop
                continue
            case 5:
                stop = at + 4
            case _:
                raise MalformedError("the body holds protobuf groups, which OTLP does not have")
        if stop > end:
            raise MalformedError("the body ends in the middle of a field")
        yield tag, at, stop
        at = stop


def _varint(raw: bytes, at: int, end: int) -> tuple[int, int]:
    if at >= end:
        raise MalformedError("the body ends in the middle of a number")
    value = raw[at]
    if value < _MORE:
        return value, at + 1
    value &= 0x7F
    for shift in range(1, _LONGEST_VARINT):
        at += 1
        if at >= end:
            break
        byte = raw[at]
        value |= (byte & 0x7F) << (7 * shift)
        if byte < _MORE:
            return value, at + 1
    raise MalformedError("the body holds a number of more than 64 bits")


def count_fields(
    raw: bytes, span: tuple[int, int], message: str, count: RequestSizeCount, depth: int = 0
) -> None:
    """Counts what is in a message that nobody reads; protobuf builds it all the same."""
    if depth > _MAX_DEPTH:
        raise MalformedError(f"the body has messages nested more than {_MAX_DEPTH} deep")
    inside = _MESSAGES.get(message, _NONE)
    for tag, begin, stop in fields(raw, *span, count):
        inner = inside.get(tag)
        if inner is not None and begin < stop:
            count.fields_left -= _FIELDS_OF_A_MESSAGE
            count_fields(raw, (begin, stop), inner, count, depth + 1)
