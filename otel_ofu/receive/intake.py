"""Numbers of one entity -> batches for the store, without what cannot be.

Enters: values and times as they came. Leaves: `Intake`, with what was refused and why.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from otel_ofu.model import Entity
from otel_ofu.receive.layouts import Doubles, KeySet
from otel_ofu.receive.rejected import RejectedPoints
from otel_ofu.receive.sorter import Owner

FUTURE_S = 60.0
"""Starting value: clocks of nodes differ by seconds."""
FORGET_S = 900.0
"""Starting value: an entity is forgotten so long after its last point."""
_NS = 1e9

Times = NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class PointBatch:
    """Values [entity, key] of entities that have the same keys, at one time (Unix seconds).

    NaN for none. `pushed`: a training job reported it.
    """

    entities: Sequence[Entity]
    keys: KeySet
    time_s: float
    values: Doubles
    pushed: bool


@dataclass(slots=True)
class Intake:
    """What came of one request. `ended`: entities of which every series has ended."""

    batches: list[PointBatch] = field(default_factory=list)
    ended: list[Owner] = field(default_factory=list)
    rejected: RejectedPoints = field(default_factory=RejectedPoints)
    accepted: int = 0
    ignored: int = 0


class IntakeLimiter:
    """Lets possible values of a bounded number of entities through."""

    def __init__(self, max_entities: int) -> None:
        self._max_entities = max_entities
        self._seen_s: dict[Owner, float] = {}

    def __len__(self) -> int:
        return len(self._seen_s)

    def take(self, batch: PointBatch, times: Times, intake: Intake, now_s: float) -> None:
        """Adds what is good of a batch to the intake; its times are in `times` [entity, key]."""
        admitted = [self._admits(owner_of(entity), now_s) for entity in batch.entities]
        if not all(admitted):
            batch, times = self._without(batch, times, admitted, intake)
        if not len(times):
            return
        values = _possible(batch, intake)
        if (times == times[0, 0]).all():
            self._add(intake, batch, (values, int(times[0, 0])), now_s)
            return
        for time_ns in np.unique(times).tolist():
            rows = np.flatnonzero((times == time_ns).any(axis=1))
            chosen = np.where(times[rows] == time_ns, values[rows], np.nan)
            self._add(intake, _rows_of(batch, rows.tolist()), (chosen, time_ns), now_s)

    def _without(
        self, batch: PointBatch, times: Times, admitted: Sequence[bool], intake: Intake
    ) -> tuple[PointBatch, Times]:
        refused = len(admitted) - sum(admitted)
        most = self._max_entities
        points = refused * len(batch.keys.keys)
        intake.rejected.add(f"there are {most} GPUs, jobs and nodes already", "", points)
        rows = [row for row, is_in in enumerate(admitted) if is_in]
        return _rows_of(batch, rows), times[rows]

    def _add(
        self, intake: Intake, batch: PointBatch, found: tuple[Doubles, int], now_s: float
    ) -> None:
        values, time_ns = found
        points = values.size - int(np.count_nonzero(np.isnan(values)))
        time_s = time_ns / _NS
        if time_s > now_s + FUTURE_S or not time_ns:
            why = "a time in the future" if time_ns else "no time"
            intake.rejected.add(why, batch.keys.keys[0], points)
        elif points:
            intake.accepted += points
            batch = PointBatch(batch.entities, batch.keys, time_s, values, batch.pushed)
            intake.batches.append(batch)

    def forget(self, owner: Owner) -> None:
        self._seen_s.pop(owner, None)

    def sweep(self, now_s: float) -> None:
        """Forgets entities that are silent."""
        since_s = now_s - FORGET_S
        self._seen_s = {owner: s for owner, s in self._seen_s.items() if s >= since_s}

    def _admits(self, owner: Owner, now_s: float) -> bool:
        if owner not in self._seen_s and len(self._seen_s) >= self._max_entities:
            return False
        self._seen_s[owner] = now_s
        return True


def owner_of(entity: Entity) -> Owner:
    return entity.kind, entity.id


def _rows_of(batch: PointBatch, rows: Sequence[int]) -> PointBatch:
    entities = [batch.entities[row] for row in rows]
    return PointBatch(entities, batch.keys, batch.time_s, batch.values[rows], batch.pushed)


def _possible(batch: PointBatch, intake: Intake) -> Doubles:
    """The values in the registry's units, NaN in place of one that cannot be."""
    values, keys = batch.values, batch.keys
    if keys.convert is not None:
        values = np.array(
            [[c(v) for c, v in zip(keys.convert, row, strict=True)] for row in values.tolist()]
        )
    good = (values >= keys.low) & (values <= keys.high)
    if keys.convert is not None:
        good |= np.isnan(values)  # what a framework does not know is no mistake of the sender
    if good.all():
        return values
    for key, wrong in zip(keys.keys, (~good).sum(axis=0).tolist(), strict=True):
        intake.rejected.add("out of range, or no number", key, wrong)
    return np.where(good, values, np.nan)
