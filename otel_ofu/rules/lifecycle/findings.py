"""The findings of one rule: every entity that is not inactive, carried from round to round.

Enters: the verdicts of a round by column. Leaves: what happened, and which findings to save. Work
is done for the entities that are not inactive; all others are looked at as one array.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from otel_ofu.model import Entity
from otel_ofu.rules.files.rule import Timing
from otel_ofu.rules.lifecycle.change import Change
from otel_ofu.rules.lifecycle.lifecycle import Move, Phase, Seen, State, step
from otel_ofu.rules.verdicts import HOLDS, UNKNOWN, Verdicts

SUMMARY = ""
"""Key of the finding that stands for all beyond the limit; no entity has this id."""


@dataclass(slots=True)
class Finding:
    """One entity that is not inactive. `told`: people heard of it by itself, not in a summary.

    `labels` are those of the rule as they were rendered when it fired. `count`: how many a summary
    was last told to stand for. `change` is what was told last, None after a restart until its next
    round.
    """

    entity: Entity | None
    state: State
    told: bool = False
    labels: Mapping[str, str] = field(default_factory=dict)
    count: int = 1
    change: Change | None = None

    @property
    def fired(self) -> bool:
        return self.state.phase is not Phase.PENDING


@dataclass(frozen=True)
class Present:
    """Who has which column in a round; shared by all rules on one kind of entity."""

    entities: Sequence[Entity | None]

    @cached_property
    def columns(self) -> Mapping[str, int]:
        return {e.id: i for i, e in enumerate(self.entities) if e is not None}


@dataclass(frozen=True, slots=True)
class Judged:
    """One rule judged for all entities of its kind at one instant, by column.

    `clears` None: the rule has no second condition. `gap_s`: since its round before.
    """

    now_s: float
    present: Present
    verdicts: Verdicts
    clears: Verdicts | None = None
    gap_s: float = 0.0

    def holds(self, column: int | None) -> bool:
        return column is not None and bool(self.verdicts[column] == HOLDS)

    def seen(self, column: int | None) -> Seen:
        """Of an entity that is gone nothing is known."""
        if column is None:
            return Seen(self.now_s, UNKNOWN, UNKNOWN, self.gap_s)
        clears = HOLDS if self.clears is None else int(self.clears[column])
        return Seen(self.now_s, int(self.verdicts[column]), clears, self.gap_s)


@dataclass(frozen=True, slots=True)
class Happened:
    """What became of one finding, and the column where its evidence is (None if it is gone)."""

    finding: Finding
    move: Move
    column: int | None


class Findings:
    """Owned by the engine's thread. `unsaved` collects what `memory` has to write: None deletes."""

    def __init__(self, kept: Mapping[str, Finding] | None = None) -> None:
        self._kept: dict[str, Finding] = dict(kept or {})
        self.unsaved: dict[str, Finding | None] = {}

    def __len__(self) -> int:
        return len(self._kept)

    def __iter__(self) -> Iterator[Finding]:
        """The findings of entities, without the summary."""
        return (finding for key, finding in self._kept.items() if key != SUMMARY)

    @property
    def summary(self) -> Finding | None:
        return self._kept.get(SUMMARY)

    def all(self) -> dict[str, Finding]:
        """With the summary, by key."""
        return dict(self._kept)

    def put(self, finding: Finding) -> None:
        self._keep(finding.entity.id if finding.entity else SUMMARY, finding)

    def drop(self, key: str) -> None:
        if self._kept.pop(key, None) is not None:
            self.unsaved[key] = None

    def rearm(self) -> None:
        """Pending findings begin anew; firing ones stay."""
        for finding in [f for f in self if not f.fired and f.entity is not None]:
            if finding.entity is not None:
                self.drop(finding.entity.id)

    def advance(self, judged: Judged, timing: Timing) -> list[Happened]:
        """One round for every entity; what happened is in the order of the columns."""
        known = [key for key in self._kept if key != SUMMARY]
        happened = [
            *(self._advance_one(key, judged, timing) for key in known),
            *self._begin(judged, timing, frozenset(known)),
        ]
        return sorted((event for event in happened if event is not None), key=_order)

    def _advance_one(self, key: str, judged: Judged, timing: Timing) -> Happened | None:
        finding, column = self._kept[key], judged.present.columns.get(key)
        if column is not None:
            self._describe(key, finding, judged.present.entities[column])
        if finding.state.is_settled and judged.holds(column):
            return None  # most of what fires goes on firing
        state, move = step(finding.state, judged.seen(column), timing)
        if state is None:
            self.drop(key)
        elif state is not finding.state:
            finding.state = state
            self.unsaved[key] = finding
        return Happened(finding, move, column) if move else None

    def _begin(
        self, judged: Judged, timing: Timing, known: frozenset[str]
    ) -> Iterator[Happened | None]:
        for column in np.flatnonzero(judged.verdicts == HOLDS).tolist():
            entity = judged.present.entities[column]
            if entity is None or entity.id in known:
                continue
            state, move = step(None, judged.seen(column), timing)
            if state is not None:
                finding = Finding(entity, state)
                self._keep(entity.id, finding)
                yield Happened(finding, move, column) if move else None

    def _describe(self, key: str, finding: Finding, entity: Entity | None) -> None:
        """The entity as it is now: a GPU may have changed its job."""
        if entity is not finding.entity and entity != finding.entity:
            finding.entity = entity
            self.unsaved[key] = finding

    def _keep(self, key: str, finding: Finding) -> None:
        self._kept[key] = finding
        self.unsaved[key] = finding


def _order(event: Happened) -> tuple[bool, int, str]:
    entity = event.finding.entity
    return event.column is None, event.column or 0, entity.id if entity else ""
