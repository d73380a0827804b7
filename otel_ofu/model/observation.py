"""What is known of an entity: a GPU, a job or a node, over one window."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from otel_ofu.model.reading import Gap, Window

Attribute = str | int | float | bool
EntityKind = Literal["gpu", "job", "node"]


@dataclass(frozen=True, slots=True)
class Entity:
    """What a metric belongs to. `id` is unique within its kind; attributes are OTel names."""

    kind: EntityKind
    id: str
    attributes: Mapping[str, Attribute]


@dataclass(frozen=True, slots=True)
class Observation:
    """All that is known of one entity over one window: points that share it, and the gaps.

    `starts_s` gives the start of counting for cumulative counters (registry kind `counter`).
    """

    entity: Entity
    window: Window
    values: Mapping[str, float]
    gaps: Mapping[str, Gap] = field(default_factory=dict)
    starts_s: Mapping[str, float] = field(default_factory=dict)
