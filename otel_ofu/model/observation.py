"""What is known of an entity: a GPU, a job or a node, over one window."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from otel_ofu.model.reading import Gap, GapReason, Window

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
    `point_attributes` may differ from one window to the next, and are no part of the entity: what
    a value counts in. They stand on the points of those metrics that ask for them (`points_with`).
    """

    entity: Entity
    window: Window
    values: Mapping[str, float]
    gaps: Mapping[str, Gap] = field(default_factory=dict)
    starts_s: Mapping[str, float] = field(default_factory=dict)
    point_attributes: Mapping[str, Attribute] = field(default_factory=dict)

    def is_to_come(self, key: str) -> bool:
        """Whether the key has no value only because none is due yet."""
        gap = self.gaps.get(key)
        return gap is not None and gap.reason is GapReason.NOT_READY

    def state(self, key: str) -> str:
        """What holds now, of a metric that is 1 for it: `x` where there is `key:x`; else empty."""
        found = (k for k in self.values if k.startswith(f"{key}:"))
        return next(found, "").partition(":")[2]
