"""By node, the time of GPUs whose data came too late for the figures of their jobs.

Enters: late seconds of nodes. Leaves: a counter of each node that was ever late.
"""

from __future__ import annotations

import numpy as np

from otel_ofu.derive.job_figures import Doubles, Indices
from otel_ofu.model import Entity, Observation, Window
from otel_ofu.store import Store

LATE_TIME = "gpu_late_time"


class LateTime:
    """Owned by one thread; hold `reading` of the store meanwhile."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._start_s: dict[str, float] = {}
        self._seconds: dict[str, float] = {}

    def count(self, nodes: Indices, late_s: Doubles) -> None:
        """Adds late seconds to nodes, by their columns; -1 for none."""
        known = (nodes >= 0) & (late_s > 0)
        slots = self._store.slots("node")
        columns, at = np.unique(nodes[known], return_inverse=True)
        sums = np.bincount(at, late_s[known], len(columns))
        for column, seconds in zip(columns.tolist(), sums.tolist(), strict=True):
            entity = slots.entity(column)
            if entity is not None:
                self._seconds[entity.id] = self._seconds.get(entity.id, 0.0) + seconds

    def observations(self, now_s: float) -> list[Observation]:
        """The nodes that ever were late, for as long as the store knows them."""
        slots = self._store.slots("node")
        self._seconds = {id_: s for id_, s in self._seconds.items() if slots.find(id_) is not None}
        self._start_s = {id_: self._start_s.get(id_, now_s) for id_ in self._seconds}
        return [self._observation(id_, now_s) for id_ in self._seconds]

    def _observation(self, node: str, now_s: float) -> Observation:
        start_s = self._start_s[node]
        value = self._seconds[node] if start_s < now_s else 0.0  # a series begins with 0
        entity = Entity("node", node, {"host.name": node})
        window = Window(now_s - self._store.step_s, now_s)
        return Observation(entity, window, {LATE_TIME: value}, starts_s={LATE_TIME: start_s})
