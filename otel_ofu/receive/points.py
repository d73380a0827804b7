"""The nouns of decoding: what a request says, before anybody knows what it is about.

Leaves the two readers (protobuf, JSON) and enters the sorter.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import msgspec

from otel_ofu.model import Attribute

Attributes = tuple[tuple[str, Attribute], ...]

Form = Literal["gauge", "sum", "delta", "histogram", "exponential histogram", "summary", "empty"]

NO_RECORDED_VALUE = 1
"""Source: opentelemetry-proto, DataPointFlags.DATA_POINT_FLAGS_NO_RECORDED_VALUE_MASK."""


class MalformedError(ValueError):
    """The body is no OTLP request; the message is for its sender."""


class Places(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """Where the 8-byte numbers of a point begin in the bytes of its resource; -1 where absent."""

    value: int
    time: int
    start: int


class RawPoint(msgspec.Struct, frozen=True, gc=False):
    """One number point. `value` is None where it has none; `time_ns` 0 where it has none."""

    name: str
    unit: str
    form: Form
    attributes: Attributes
    time_ns: int
    value: float | None
    is_int: bool = False
    ended: bool = False
    places: Places | None = None

    @property
    def is_whole(self) -> bool:
        """Whether it has a value and a time."""
        return self.value is not None and self.time_ns > 0


@dataclass(slots=True)
class RawResource:
    """One ResourceMetrics. `unread` counts points that hold no number, by form and name."""

    attributes: Attributes
    points: list[RawPoint]
    unread: dict[tuple[Form, str], int]
