"""How much history is kept, of which metrics, and on which steps.

Enters: the registry and the retention; times in seconds. Leaves: shapes of series; numbers of
steps.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec

from otel_ofu.catalog.registry import Registry
from otel_ofu.model import EntityKind
from otel_ofu.store.memory import SeriesShape, StoreLayout

Key = tuple[EntityKind, str]

MINUTE_S = 60.0
# Starting values: five minutes for rules that are added later; an entity is forgotten after a day.
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


FLAG = "flag"


class Shapes:
    """The shape of every series under one retention; looked up once a metric."""

    def __init__(self, registry: Registry, retention: Retention, step_s: float) -> None:
        self._registry = registry
        self._retention = retention
        self._step_s = step_s
        self._known: dict[tuple[EntityKind, str], SeriesShape | None] = {}

    def empty(self) -> StoreLayout:
        """The layout before anything was seen."""
        depth_s = max(self._retention.depth_s, MIN_DEPTH_S)
        rows = math.ceil(depth_s / self._step_s) + 1
        return StoreLayout(step_s=self._step_s, rows=rows, capacity=1)

    def of(self, kind: EntityKind, key: str) -> SeriesShape | None:
        """The shape of a metric; None if the kind has no such metric, or it is not kept."""
        name = kind, key
        if name not in self._known:
            self._known[name] = self._shape(kind, key)
        return self._known[name]

    def fitted(self, kind: EntityKind, layout: StoreLayout) -> StoreLayout:
        """A layout with the same metrics as they are to be kept now."""
        kept = (self.of(kind, shape.key) for shape in layout.series)
        series = tuple(shape for shape in kept if shape is not None)
        return msgspec.structs.replace(layout, rows=self.empty().rows, series=series)

    def _shape(self, kind: EntityKind, key: str) -> SeriesShape | None:
        base = key.partition(":")[0]
        metric = self._registry.metrics.get(base)
        is_flag = metric is None and base == FLAG and kind == "gpu"
        if not self._retention.keeps((kind, key)):
            return None
        if not is_flag and (metric is None or metric.entity != kind or metric.kind == "histogram"):
            return None
        reach_s = self._retention.minutes.get((kind, key), 0.0)
        minutes = math.ceil(reach_s / max(MINUTE_S, self._step_s)) + 1 if reach_s else 0
        counter = metric is not None and metric.kind == "counter"
        return SeriesShape(key=key, counter=counter, minutes=minutes)


# Starting value: a value of a longer window is little evidence for each of its steps.
LONGEST_SPAN_S = 60.0
# A value a tenth of a step after an instant still counts to it: timers and clocks are not exact.
SLACK_STEPS = 0.1


class Steps:
    """Steps of `length_s` seconds since the epoch; a bucket is the number of one."""

    def __init__(self, length_s: float) -> None:
        self.length_s = length_s
        self._longest_span = max(3, round(LONGEST_SPAN_S / length_s))

    def bucket(self, time_s: float) -> int:
        """The bucket that a time falls into: those after one instant, up to the next."""
        return math.ceil(time_s / self.length_s - SLACK_STEPS)

    def span(self, window_s: float) -> int:
        """How many buckets a value's own window fills: those of a minute at most."""
        return min(max(1, round(window_s / self.length_s)), self._longest_span)
