"""What a request holds, before it is known what it is about, and how much it may hold.

Enters: what the two readers (protobuf, JSON) come upon. Leaves: raw resources for the sorter, or
TooManyError as soon as a limit is passed: a small body can hold millions of empty messages.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Literal

import msgspec

from otel_ofu.model import Attribute

Attributes = tuple[tuple[str, Attribute], ...]

Form = Literal["gauge", "sum", "delta", "histogram", "exponential histogram", "summary", "empty"]

NO_RECORDED_VALUE = 1
"""Source: opentelemetry-proto, DataPointFlags.DATA_POINT_FLAGS_NO_RECORDED_VALUE_MASK."""


class MalformedError(ValueError):
    """The body is no OTLP request; the message is for its sender."""


class Offsets(msgspec.Struct, frozen=True, gc=False, array_like=True):
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
    offsets: Offsets | None = None

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


Noun = Literal["resources", "scopes", "metrics", "points", "fields"]


class TooManyError(MalformedError):
    """The request holds more than is taken at a time; the message is for its sender."""

    def __init__(self, noun: Noun, limit: int) -> None:
        super().__init__(f"the request has more than {limit} {noun}; send smaller batches")


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestSizeLimits:
    """The most that one request may hold. All are starting values.

    `resources`: 20 MiB, the limit of HTTP, at 1 KiB for a GPU. `points`: twice those of 20 MiB at
    206 bytes a point (docs/performance.md). `fields`: of messages in protobuf, values in JSON; ten
    for a point, which cost 0.3 us each to walk; a message that is counted and not read costs six
    more. Of resources whose layout is known nothing is walked, so only the resources count.
    """

    resources: int = 20_000
    scopes: int = 40_000
    metrics: int = 200_000
    points: int = 200_000
    fields: int = 2_000_000


class RequestSizeCount:
    """What is left to one request; `fields_left` is counted down in place, in the inner loop."""

    def __init__(self, sizes: RequestSizeLimits) -> None:
        self._sizes: dict[Noun, int] = asdict(sizes)  # type: ignore[assignment]  # its names are the nouns
        self._left = dict(self._sizes)
        self.fields_left = sizes.fields

    def add(self, noun: Noun, number: int = 1) -> None:
        self._left[noun] -= number
        if self._left[noun] < 0:
            raise self.too_many(noun)

    def too_many(self, noun: Noun) -> TooManyError:
        return TooManyError(noun, self._sizes[noun])
