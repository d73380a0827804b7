"""A change of a finding -> what people are told of it: causes, numbers, since when.

Enters: `Change`s of an engine. Leaves: `Diagnosis`. All causes are judged once for all findings of
an instant, so hundreds at once cost little more than one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from otel_ofu.catalog.registry import Registry
from otel_ofu.diagnose.cause import Cause, CauseBook
from otel_ofu.diagnose.dating import Began, Calendar
from otel_ofu.diagnose.facts import facts_of, gpu_hours_lost, known_facts
from otel_ofu.diagnose.ranking import LIKELY, Ranker, Whose
from otel_ofu.diagnose.scoring import Judges, Scorer, Scores
from otel_ofu.diagnose.wording import Wording
from otel_ofu.model import Diagnosis, EntityKind, RankedCause
from otel_ofu.rules.language.syntax import Expression, FlagCondition, walk
from otel_ofu.rules.lifecycle.change import Change
from otel_ofu.store import Store

NO_KNOWN_CAUSE = "no known cause fits"
PROFILE_NEXT = (
    "look at gaps between kernels and at the longest of them, over 30 s of one rank:"
    " nsys profile -t cuda,nvtx,osrt -d 30 -o ofu <command>\n"
    "see what Python does: py-spy dump --pid <pid>"
)
MAX_REMEMBERED = 100_000


def looked_at(causes: CauseBook, registry: Registry) -> list[Expression]:
    """Every expression that diagnosis evaluates, for how much history to keep."""
    return [*causes.expressions(), *(fact.expression for fact in known_facts(registry))]


@dataclass(slots=True)
class _Instant:
    """What was found out once for all findings of an instant."""

    scores: Scores
    calendar: Calendar
    columns: dict[EntityKind, dict[str, int]] = field(default_factory=dict)

    def column(self, kind: EntityKind, entity_id: str) -> int | None:
        if kind not in self.columns:
            entities = self.scores.round.rosters[kind].entities
            self.columns[kind] = {e.id: n for n, e in enumerate(entities) if e is not None}
        return self.columns[kind].get(entity_id)


class Diagnoser:
    """Belongs to the thread of the rules. `delay_s` as the engine has it."""

    def __init__(
        self,
        causes: CauseBook,
        engine: Judges,
        store: Store,
        registry: Registry,
        *,
        delay_s: float = 0.0,
    ) -> None:
        self._book = causes
        self._by_id = {cause.id: cause for cause in causes.causes}
        self._scorer = Scorer(causes, engine, store, known_facts(registry))
        self._ranker = Ranker(Wording(registry))
        self._store = store
        self._delay_s = delay_s
        self._instant: _Instant | None = None
        self._told: dict[str, Diagnosis] = {}

    def diagnose(self, change: Change) -> Diagnosis:
        """What to tell of a change. One that ends keeps the causes that it was told with."""
        if change.entity is None:
            return self._plain(change)
        if change.kind == "resolved":
            return self._ended(change)
        told = self._found(change)
        if len(self._told) < MAX_REMEMBERED:
            self._told[change.fingerprint] = told
        return told

    def is_legitimate(self, diagnosis: Diagnosis) -> bool:
        """Whether its most likely cause is meant to be."""
        first = next(iter(diagnosis.causes), None)
        cause = self._by_id.get(first.id) if first else None
        return bool(first and cause and cause.legitimate and first.score >= LIKELY)

    def _found(self, change: Change) -> Diagnosis:
        instant = self._at(change.at_s - self._delay_s)
        whose = _whose(change, instant)
        if whose is None:
            return self._plain(change)
        ranked = self._ranker.rank(instant.scores, whose, self._book.expand(change.causes))
        began = instant.calendar.began(whose.gpus, self._flags(ranked))
        facts = _facts(instant.scores, whose, change, began)
        told = self._plain(change, tuple(ranked), facts, _annotations(ranked, began))
        return _mild(told) if self.is_legitimate(told) else told

    def _at(self, at_s: float) -> _Instant:
        if self._instant is None or self._instant.scores.at_s != at_s:
            self._instant = _Instant(self._scorer.score(at_s), Calendar(self._store, at_s))
        return self._instant

    def _flags(self, ranked: Sequence[RankedCause]) -> list[str]:
        """The flags that the most likely causes name and that are there."""
        said = {line for cause in ranked for line in cause.evidence}
        causes = (self._by_id[cause.id] for cause in ranked)
        return [name for cause in causes for name in _names(cause) if f"{name} is set" in said]

    def _ended(self, change: Change) -> Diagnosis:
        before = self._told.pop(change.fingerprint, None)
        if before is None:
            return self._plain(change)
        facts = dict(before.facts)
        facts["lasted_s"] = max(0.0, change.at_s - change.since_s)
        return self._plain(change, before.causes, facts, before.annotations)

    def _plain(
        self,
        change: Change,
        causes: Sequence[RankedCause] = (),
        facts: Mapping[str, float] | None = None,
        annotations: Mapping[str, str] | None = None,
    ) -> Diagnosis:
        whom = change.entity.id if change.entity else f"{change.count} {change.each}s"
        return Diagnosis(
            kind=change.kind,
            rule=change.rule,
            entity=change.entity,
            fingerprint=change.fingerprint,
            severity=change.severity,
            at_s=change.at_s,
            since_s=change.since_s,
            summary=change.annotations.get("summary") or f"{change.rule} on {whom}",
            reason=change.reason,
            value=change.value,
            threshold=change.threshold,
            labels=change.labels,
            annotations={**(annotations or {}), **change.annotations},
            causes=causes,
            facts=facts or {},
            link=change.link,
            shadow=change.shadow,
            count=change.count,
        )


def _whose(change: Change, instant: _Instant) -> Whose | None:
    """None for an entity that the store does not know any more."""
    if change.entity is None:
        return None
    kind = change.entity.kind
    column = instant.column(kind, change.entity.id)
    if column is None:
        return None
    gpus = np.flatnonzero(instant.scores.members[kind] == column)
    if kind != "gpu":
        live = instant.scores.round.rosters["gpu"].entities
        gpus = np.array([g for g in gpus.tolist() if live[g] is not None], np.intp)
    return Whose(kind, column, gpus)


def _facts(scores: Scores, whose: Whose, change: Change, began: Began | None) -> dict[str, float]:
    facts = facts_of(scores.facts, whose.gpus)
    since_s = change.since_s
    if began is not None:
        facts["ofu_before"] = began.before
        facts["began_s"] = began.at_s
        since_s = min(since_s, began.at_s) if began.after < began.before else since_s
    facts["gpus"] = float(len(whose.gpus))
    lost = gpu_hours_lost(facts, len(whose.gpus), change.at_s - since_s)
    if lost is not None:
        facts["gpu_hours_lost"] = lost
    return facts


def _annotations(ranked: Sequence[RankedCause], began: Began | None) -> dict[str, str]:
    said: dict[str, str] = {}
    likely = [cause for cause in ranked if cause.score >= LIKELY] or list(ranked[:1])
    if likely:
        said["cause"] = "; and ".join(f"{c.title} ({c.id}, {c.score:.2f})" for c in likely[:2])
    else:
        said["cause"] = NO_KNOWN_CAUSE
        said["profile_next"] = PROFILE_NEXT
    if began is not None:
        said["began"] = began.words
    return said


def _mild(told: Diagnosis) -> Diagnosis:
    """A finding whose cause is meant to be: worth knowing, nobody is woken for it."""
    notes = {**told.annotations, "legitimate": "its most likely cause is meant to be"}
    return replace(told, severity="info", annotations=notes)


def _names(cause: Cause) -> list[str]:
    conditions = (clue.condition for clue in cause.clues if clue.condition is not None)
    nodes = (node for condition in conditions for node in walk(condition.root))
    return [node.name for node in nodes if isinstance(node, FlagCondition)]
