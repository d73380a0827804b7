"""Numbers of one entity -> batches for the store, without what cannot be.

Enters: values and times as they came. Leaves: `Intake`, with what was refused and why.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from otel_ofu.model import Entity
from otel_ofu.receiver.layouts import Doubles, KeySet
from otel_ofu.receiver.rejected import Rejected
from otel_ofu.receiver.sorter import Owner

FUTURE_S = 60.0
_NS = 1e9

Times = NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class Batch:
    """Values of one entity at one time (Unix seconds), in the order of the keys; NaN for none."""

    entity: Entity
    keys: KeySet
    time_s: float
    values: Doubles
    pushed: bool


@dataclass(slots=True)
class Intake:
    """What came of one request. `ended`: entities of which every series has ended."""

    batches: list[Batch] = field(default_factory=list)
    ended: list[Owner] = field(default_factory=list)
    rejected: Rejected = field(default_factory=Rejected)
    accepted: int = 0
    ignored: int = 0


@dataclass(frozen=True, slots=True)
class Bounds:
    """New entities are refused while there are `max_entities`.

    What is remembered of an entity is forgotten after `forget_s` without a word from it.
    """

    max_entities: int = 200_000
    forget_s: float = 900.0


class Gate:
    """Lets possible values of a bounded number of entities through."""

    def __init__(self, bounds: Bounds) -> None:
        self._bounds = bounds
        self._seen_s: dict[Owner, float] = {}

    def __len__(self) -> int:
        return len(self._seen_s)

    def take(self, batch: Batch, times: Times, intake: Intake, now_s: float) -> None:
        """Adds what is good of a batch, of which the time is not yet known, to the intake."""
        values, keys = batch.values, batch.keys
        if not self._admits(owner_of(batch.entity), now_s):
            most = self._bounds.max_entities
            intake.rejected.add(f"there are {most} GPUs, jobs and nodes already", "", len(values))
            return
        good = (values >= keys.low) & (values <= keys.high)
        if keys.convert is not None:
            # What a framework does not know is no mistake of the sender.
            pairs = zip(keys.convert, values.tolist(), strict=True)
            values = np.array([convert(value) for convert, value in pairs])
            good = (values <= keys.high) | np.isnan(values)
        if not good.all():
            for at in np.flatnonzero(~good).tolist():
                intake.rejected.add("out of range, or no number", keys.keys[at])
            values = np.where(good, values, np.nan)
        if (times == times[0]).all():
            self._add(intake, batch, (values, int(times[0])), now_s)
            return
        for time_ns in np.unique(times).tolist():
            chosen = np.where(times == time_ns, values, np.nan)
            self._add(intake, batch, (chosen, time_ns), now_s)

    def _add(self, intake: Intake, batch: Batch, found: tuple[Doubles, int], now_s: float) -> None:
        values, time_ns = found
        points = int(np.count_nonzero(values == values))  # noqa: PLR0124 - NaN is not itself
        time_s = time_ns / _NS
        if time_s > now_s + FUTURE_S or not time_ns:
            why = "a time in the future" if time_ns else "no time"
            intake.rejected.add(why, batch.keys.keys[0], points)
            return
        if points:
            intake.accepted += points
            intake.batches.append(Batch(batch.entity, batch.keys, time_s, values, batch.pushed))

    def forget(self, owner: Owner) -> None:
        self._seen_s.pop(owner, None)

    def sweep(self, now_s: float) -> None:
        """Forgets entities that are silent."""
        since_s = now_s - self._bounds.forget_s
        self._seen_s = {owner: s for owner, s in self._seen_s.items() if s >= since_s}

    def _admits(self, owner: Owner, now_s: float) -> bool:
        if owner not in self._seen_s and len(self._seen_s) >= self._bounds.max_entities:
            return False
        self._seen_s[owner] = now_s
        return True


def owner_of(entity: Entity) -> Owner:
    return entity.kind, entity.id
