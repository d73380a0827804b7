"""Which metrics are kept, and how deep: the registry and the retention -> shapes of series."""

from __future__ import annotations

import math

import msgspec

from otel_ofu.catalog.registry import Registry
from otel_ofu.model import EntityKind
from otel_ofu.store.layout import Layout, SeriesShape
from otel_ofu.store.retention import MIN_DEPTH_S, MINUTE_S, Retention

FLAG = "flag"


class Shapes:
    """The shape of every series under one retention; looked up once a metric."""

    def __init__(self, registry: Registry, retention: Retention, step_s: float) -> None:
        self._registry = registry
        self._retention = retention
        self._step_s = step_s
        self._known: dict[tuple[EntityKind, str], SeriesShape | None] = {}

    def empty(self) -> Layout:
        """The layout before anything was seen."""
        depth_s = max(self._retention.depth_s, MIN_DEPTH_S)
        rows = math.ceil(depth_s / self._step_s) + 1
        return Layout(step_s=self._step_s, rows=rows, capacity=1)

    def of(self, kind: EntityKind, key: str) -> SeriesShape | None:
        """The shape of a metric; None if the kind has no such metric, or it is not kept."""
        place = kind, key
        if place not in self._known:
            self._known[place] = self._shape(kind, key)
        return self._known[place]

    def fitted(self, kind: EntityKind, layout: Layout) -> Layout:
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
