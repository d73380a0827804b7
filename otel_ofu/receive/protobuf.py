"""Fields of protobuf messages, with the places where they stand.

Enters: bytes. Leaves: tags and spans. The places are what protobuf's own classes do not give.
"""

from __future__ import annotations

from collections.abc import Iterator

from otel_ofu.receive.points import MalformedError
from otel_ofu.receive.sizes import Count

Field = tuple[int, int, int]
"""Tag (number << 3 | wire type); the value of a varint, or where the content begins; where it
ends."""

_LONGEST_VARINT = 10
_MORE = 0x80
"""Every byte of a varint but its last has this bit."""


def fields(raw: bytes, at: int, end: int, count: Count) -> Iterator[Field]:
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
