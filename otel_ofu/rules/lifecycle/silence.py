"""Entities that fell silent: known, but nothing was heard of them for a while.

Enters: when each entity was last heard. Leaves: verdicts as for any rule; never unknown.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from otel_ofu.model import Entity, EntityKind
from otel_ofu.rules.files.rule import Silence
from otel_ofu.rules.language.syntax import Comparator, Compare, Latest, Number
from otel_ofu.rules.verdicts import CLEAR, HOLDS, UNKNOWN, Observed, Verdicts
from otel_ofu.store import Store

Times = NDArray[np.float64]


class Ears(Protocol):
    """Knows when each entity was last heard, in Unix seconds, by column."""

    def heard(self, kind: EntityKind) -> tuple[Sequence[Entity | None], Times]: ...


class StoreEars:
    """When observations of an entity last came in; for jobs and nodes those of their GPUs count."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def heard(self, kind: EntityKind) -> tuple[Sequence[Entity | None], Times]:
        with self._store.reading():
            slots = self._store.slots(kind)
            entities = [slots.entity(i) for i in range(len(slots))]
            heard_s = slots.last_seen_s[: len(slots)].copy()
            if kind != "gpu":
                self._hear_gpus(kind, heard_s)
        return entities, heard_s

    def _hear_gpus(self, kind: EntityKind, heard_s: Times) -> None:
        gpus = self._store.slots("gpu")
        membership = self._store.membership
        columns = len(gpus)
        owners = membership.jobs(columns) if kind == "job" else membership.nodes(columns)
        owned = (owners >= 0) & gpus.live()
        np.fmax.at(heard_s, owners[owned], gpus.last_seen_s[:columns][owned])


@dataclass(frozen=True)
class Silent:
    """One silence rule judged. Nobody is silent before the agent itself has listened so long."""

    entities: Sequence[Entity | None]
    verdicts: Verdicts
    silent_s: Times
    after_s: float

    def look(self, column: int | None) -> Sequence[Observed]:
        if column is None:
            return ()
        after = Number(self.after_s, "s")
        node = Compare(Comparator.GREATER_EQUAL, Latest("silent"), after)
        silent_s = float(self.silent_s[column])
        verdict = int(self.verdicts[column])
        return [Observed(node, verdict, silent_s, self.after_s, 0.0, float("nan"))]


def judge_silence(
    ears: Ears, kind: EntityKind, silence: Silence, times: tuple[float, float]
) -> Silent:
    """`times`: now, and since when the agent listens."""
    now_s, listening_s = times
    entities, heard_s = ears.heard(kind)
    silent_s = now_s - np.fmax(heard_s, listening_s)
    verdicts = np.where(silent_s >= silence.after_s, HOLDS, CLEAR).astype(np.int8)
    if kind == "gpu" and (verdicts == HOLDS).any():
        verdicts[_replaced(entities, heard_s)] = CLEAR
    nobody = [column for column, entity in enumerate(entities) if entity is None]
    verdicts[nobody] = UNKNOWN
    return Silent(entities, verdicts, silent_s, silence.after_s)


def _replaced(entities: Sequence[Entity | None], heard_s: Times) -> list[int]:
    """Columns of GPUs that were heard later as another entity: with another job."""
    newest: dict[object, int] = {}
    replaced: list[int] = []
    for column in np.argsort(heard_s, kind="stable").tolist():
        entity = entities[column]
        if entity is not None:
            before = newest.get(device := entity.attributes.get("hw.id", entity.id))
            replaced += [] if before is None else [before]
            newest[device] = column
    return replaced
