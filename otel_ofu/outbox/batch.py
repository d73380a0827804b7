"""What waits in the outbox: a body with the exporter that it is for, its priority and its age.

Beside it what a user may choose: the block `outbox`.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Annotated, NamedTuple

from otel_ofu.files.settings import Duration, QuantityRange, Settings, Size

# The largest window, and a header of gzip. Source: the manual of zlib, inflateInit2.
_GZIP_WINDOW_BITS = 31
# Level 1: 18 % more bytes than level 6 for half of the time (reference measurement, 22.7 MB).
GZIP_LEVEL = 1

Observe = Callable[[str, str, int], None]
"""(exporter, outcome, points); outcomes: sent, rejected, dropped, failed."""


@dataclass(frozen=True, slots=True)
class Body:
    """`gzipped` holds one serialised request of `signal`: "metrics", "logs", "notification", ...

    `points`: how many data points, records or alerts it stands for.
    """

    signal: str
    gzipped: bytes
    points: int

    @classmethod
    def of(cls, signal: str, raw: bytes, points: int) -> Body:
        """Packs a serialised request; the same request gives the same bytes."""
        return cls(signal, gzip.compress(raw, GZIP_LEVEL, mtime=0), points)

    def raw(self) -> bytes:
        """The serialised request, not compressed."""
        return zlib.decompress(self.gzipped, _GZIP_WINDOW_BITS)


class Priority(IntEnum):
    """Which goes first, and which is dropped last."""

    METRICS = 0
    EVENTS = 1


@dataclass(frozen=True, slots=True)
class Batch:
    """`id` rises with every put, over all exporters. `created_s` in Unix seconds."""

    id: int
    exporter: str
    priority: Priority
    created_s: float
    body: Body

    @property
    def entry(self) -> Entry:
        body = self.body
        return Entry(self.id, self.priority, self.created_s, len(body.gzipped), body.points)


class Entry(NamedTuple):
    """A batch without its body, as a queue keeps it in memory."""

    id: int
    priority: Priority
    created_s: float
    size_bytes: int
    points: int


@dataclass(frozen=True, slots=True)
class Limits:
    """What an exporter's queue keeps; beyond it the oldest is dropped and counted.

    Starting values: a day's outage of one node's metrics is some 30 MB.
    """

    max_bytes: int = 64 * 1024 * 1024
    max_age_s: float = 86_400.0


class OutboxSettings(Settings, frozen=True, kw_only=True):
    """`max_size`: most that is kept for one exporter; `max_age`: the longest."""

    max_size: Annotated[Size, QuantityRange(Size(1), Size(2**40))] = Size(256 * 2**20)
    max_age: Annotated[Duration, QuantityRange(Duration(0.001), Duration(365 * 86400))] = Duration(
        86400
    )
