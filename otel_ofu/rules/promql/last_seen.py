"""When each entity was last seen, as a Prometheus-like server knows it: for rules on silence."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from otel_ofu.catalog.registry import Registry
from otel_ofu.model import Entity, EntityKind
from otel_ofu.model.clock import Clock, SystemClock
from otel_ofu.rules.lifecycle.silence import Times
from otel_ofu.rules.promql.samples import MetricVectors
from otel_ofu.rules.promql.server import Queries
from otel_ofu.rules.promql.settings import CompilerSettings, entity_of, key_of


class PromqlLastSeen:
    """Entities that were seen within the last hour. `last_seen` raises QueryError."""

    def __init__(self, queries: Queries, registry: Registry, *, clock: Clock | None = None) -> None:
        self._queries = queries
        self._registry = registry
        self._clock = clock or SystemClock()

    def last_seen(self, kind: EntityKind) -> tuple[Sequence[Entity | None], Times]:
        """The entities, and when each was seen, in Unix seconds."""
        text = MetricVectors(self._registry, CompilerSettings(), kind).seen().text
        samples = self._queries.query(text, self._clock.now_s())
        seen = {key_of(kind, labels): time_s for labels, time_s in samples}
        return [entity_of(kind, key) for key in seen], np.array(list(seen.values()), np.float64)
