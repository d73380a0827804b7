"""How much history is kept, and on which steps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from otel_ofu.model import EntityKind

Key = tuple[EntityKind, str]

MINUTE_S = 60.0
MIN_DEPTH_S = 300.0
DAY_S = 86_400.0


@dataclass(frozen=True, slots=True)
class Retention:
    """What the store keeps. Windows that reach back further than `depth_s` need `minutes`.

    `depth_s`: history of every metric on the store's own step, in seconds (300 at least).
    `minutes`: metric -> seconds of history as means of a minute.
    `only`: the metrics to keep at all; None for every metric of the registry.
    `forget_s`: an entity that was silent for so long is ended.
    """

    depth_s: float = 900.0
    minutes: Mapping[Key, float] = field(default_factory=dict)
    only: frozenset[Key] | None = None
    forget_s: float = DAY_S

    def keeps(self, key: Key) -> bool:
        return self.only is None or key in self.only
