"""Samples between two reads: enters what the engine calls latest, leaves what is new.

Also the way out when the engine's clock stepped back: its cache then keeps answering the sample
from the future, while newer ones lie before it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from otel_ofu.sources.dcgm.answers import Entity
from otel_ofu.sources.dcgm.engine import Engine, Watch
from otel_ofu.sources.dcgm.wire import Sample

FUTURE_S = 2.0
"""How far a sample may lie ahead of this machine's clock: engine and agent on two hosts."""

_HISTORY_S = 60.0
_MOST = 128
"""Samples kept of one field when nobody reads: two minutes of the fastest sensible clock."""

_Key = tuple[Entity, int]


class Recent:
    """New samples by entity and field, oldest first; a sample is recognised by its time."""

    def __init__(self) -> None:
        self._latest: dict[_Key, Sample] = {}
        self._kept: dict[_Key, deque[Sample]] = {}

    def add(self, entity: Entity, samples: Sequence[Sample]) -> None:
        for sample in samples:
            key = (entity, sample.field)
            before = self._latest.get(key)
            if before is None or before.ts_us != sample.ts_us:
                self._kept.setdefault(key, deque(maxlen=_MOST)).append(sample)
            self._latest[key] = sample

    def take(self) -> dict[Entity, list[Sample]]:
        """What came since the last call, by entity; where nothing did, the sample as it stands."""
        rows: dict[Entity, list[Sample]] = {}
        for key, sample in self._latest.items():
            rows.setdefault(key[0], []).extend(self._kept.get(key) or [sample])
        self._kept = {}
        return rows


def unstick(
    engine: Engine, watches: Sequence[Watch], rows: dict[Entity, list[Sample]], now_s: float
) -> None:
    """Replace, in `rows`, samples from the future by the newest that lies before `now_s`."""
    limit_us = round((now_s + FUTURE_S) * 1e6)
    if not any(s.ts_us > limit_us for row in rows.values() for s in row):
        return
    newest: dict[_Key, Sample] = {}
    for watch in watches:
        for entity, sample in engine.history(watch, now_s - _HISTORY_S):
            key = (entity, sample.field)
            if sample.ts_us <= limit_us and sample.ts_us >= newest.get(key, sample).ts_us:
                newest[key] = sample
    for entity, row in rows.items():
        rows[entity] = [newest.get((entity, s.field), s) if s.ts_us > limit_us else s for s in row]
