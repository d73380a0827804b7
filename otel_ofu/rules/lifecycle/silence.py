"""Entities that fell silent: known, but not seen for a while.

Enters: when each entity was last seen. Leaves: an `Evaluation` as of any rule; never unknown.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from otel_ofu.model import Entity, EntityKind
from otel_ofu.rules.files.rule import SilenceCondition
from otel_ofu.rules.language.syntax import Comparator, Compare, Latest, Number
from otel_ofu.rules.lifecycle.evaluation import Evaluation
from otel_ofu.rules.verdicts import CLEAR, HOLDS, UNKNOWN, EntityComparison, Roster
from otel_ofu.store import Store

Times = NDArray[np.float64]


class LastSeen(Protocol):
    """Knows when each entity was last seen, in Unix seconds, by column."""

    def last_seen(self, kind: EntityKind) -> tuple[Sequence[Entity | None], Times]: ...


class StoreLastSeen:
    """When observations of an entity last came in; for jobs and nodes those of their GPUs count."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def last_seen(self, kind: EntityKind) -> tuple[Sequence[Entity | None], Times]:
        with self._store.reading():
            slots = self._store.slots(kind)
            entities = [slots.entity(i) for i in range(len(slots))]
            seen_s = slots.last_seen_s[: len(slots)].copy()
            if kind != "gpu":
                self._add_gpus(kind, seen_s)
        return entities, seen_s

    def _add_gpus(self, kind: EntityKind, seen_s: Times) -> None:
        gpus = self._store.slots("gpu")
        membership = self._store.membership
        columns = len(gpus)
        owners = membership.jobs(columns) if kind == "job" else membership.nodes(columns)
        owned = (owners >= 0) & gpus.live()
        np.fmax.at(seen_s, owners[owned], gpus.last_seen_s[:columns][owned])


def judge_silence(
    last_seen: LastSeen, kind: EntityKind, silence: SilenceCondition, times: tuple[float, float]
) -> Evaluation:
    """`times`: now, and since when the agent runs: no entity is silent before it ran so long."""
    now_s, running_s = times
    entities, seen_s = last_seen.last_seen(kind)
    silent_s = now_s - np.fmax(seen_s, running_s)
    verdicts = np.where(silent_s >= silence.after_s, HOLDS, CLEAR).astype(np.int8)
    if kind == "gpu" and (verdicts == HOLDS).any():
        verdicts[_replaced(entities, seen_s)] = CLEAR
    verdicts[[column for column, entity in enumerate(entities) if entity is None]] = UNKNOWN
    node = Compare(Comparator.GREATER_EQUAL, Latest("silent"), Number(silence.after_s, "s"))

    def observed(column: int) -> Sequence[EntityComparison]:
        value, verdict = float(silent_s[column]), int(verdicts[column])
        return [EntityComparison(node, verdict, value, silence.after_s, 0.0, math.nan)]

    return Evaluation(now_s, Roster(entities), verdicts, None, observed)


def _replaced(entities: Sequence[Entity | None], seen_s: Times) -> list[int]:
    """Columns of GPUs that were seen later as another entity: with another job."""
    newest: dict[object, int] = {}
    replaced: list[int] = []
    for column in np.argsort(seen_s, kind="stable").tolist():
        entity = entities[column]
        if entity is not None:
            before = newest.get(device := entity.attributes.get("hw.id", entity.id))
            replaced += [] if before is None else [before]
            newest[device] = column
    return replaced
