"""What lies in the outbox: a body with the exporter that it is for, its rank and its age."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from otel_ofu.outbox.body import Body


class Priority(IntEnum):
    """Who goes first, and who is dropped last."""

    METRICS = 0
    EVENTS = 1


@dataclass(frozen=True, slots=True)
class Parcel:
    """`id` rises with every put, over all exporters. `created_s` in Unix seconds."""

    id: int
    exporter: str
    priority: Priority
    created_s: float
    body: Body


@dataclass(frozen=True, slots=True)
class Limits:
    """What an exporter's queue keeps; beyond it the oldest is dropped and counted."""

    max_bytes: int = 64 * 1024 * 1024
    max_age_s: float = 86_400.0
