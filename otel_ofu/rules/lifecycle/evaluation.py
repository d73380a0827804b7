"""All rules that are due, judged at one instant.

Enters: rules, instants, what an engine answers, when each entity was last seen. Leaves: an
`Evaluation` a rule: verdicts by column, and the evidence of a column when asked for. The conditions
of all rules go to the source of verdicts in one round, so that they share their windows. When that
fails, each rule is tried by itself: one that cannot be judged does not stop the others.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from otel_ofu.model import Entity, EntityKind, Evidence
from otel_ofu.model.log_once import LogOnce
from otel_ofu.rules.files.rule import Rule, SilenceCondition
from otel_ofu.rules.language.printing import to_text
from otel_ofu.rules.language.syntax import (
    Comparator,
    Compare,
    FlagCondition,
    Latest,
    Number,
    Over,
    walk,
)
from otel_ofu.rules.verdicts import (
    CLEAR,
    HOLDS,
    UNKNOWN,
    Condition,
    EntityComparison,
    Roster,
    VerdictRound,
    Verdicts,
)
from otel_ofu.store import Store


@dataclass(frozen=True, slots=True)
class Evaluation:
    """One rule judged for all entities of its kind. `clears` None: it has no second condition.

    `observed` gives the comparisons at a column, in the order of the rule's text.
    """

    now_s: float
    roster: Roster
    verdicts: Verdicts
    clears: Verdicts | None
    observed: Callable[[int], Sequence[EntityComparison]]
    _names: dict[int, tuple[str, str]] = field(default_factory=dict)

    def at(self, column: int | None) -> tuple[int, int]:
        """Both verdicts; of an entity that is gone nothing is known."""
        if column is None:
            return UNKNOWN, UNKNOWN
        clears = HOLDS if self.clears is None else int(self.clears[column])
        return int(self.verdicts[column]), clears

    def evidence(self, column: int | None) -> tuple[Evidence, ...]:
        """The comparisons in the order of the text, but the first that holds in front of all."""
        seen = [] if column is None else list(self.observed(column))
        first = next((one for one in seen if one.verdict == HOLDS), None)
        ordered = seen if first is None else [first, *(one for one in seen if one is not first)]
        return tuple(self._evidence(one) for one in ordered)

    def _evidence(self, observed: EntityComparison) -> Evidence:
        """With the text of the comparison, which is rendered once for all columns."""
        node = observed.node
        if id(node) not in self._names:
            self._names[id(node)] = to_text(node), _metric(observed)
        condition, metric = self._names[id(node)]
        return Evidence(
            condition,
            metric,
            _number(observed.value),
            _number(observed.threshold),
            observed.window_s,
            _number(observed.coverage),
        )


def _metric(observed: EntityComparison) -> str:
    """The metric that a comparison is about: the first in it."""
    parts = (p for p in walk(observed.node) if isinstance(p, Latest | Over | FlagCondition))
    return next((part.metric.replace(":", ".") for part in parts), "constant")


def _number(value: float) -> float | None:
    return None if math.isnan(value) else value


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


log = logging.getLogger(__name__)


class VerdictSource(Protocol):
    """Judges conditions at an instant: over the store, or by asking a Prometheus."""

    def round(self, conditions: Sequence[Condition], at_s: float) -> VerdictRound: ...


@dataclass(frozen=True, slots=True)
class Instant:
    """Unix seconds. `at_s`: when windows end; `now_s`: the round; `running_s`: since when."""

    at_s: float
    now_s: float
    running_s: float


class RuleEvaluator:
    """`last_seen` None: rules on silence cannot be judged. `failures` counts by rule."""

    def __init__(self, source: VerdictSource, last_seen: LastSeen | None) -> None:
        self._source = source
        self._last_seen = last_seen
        self._once = LogOnce(log, level=logging.ERROR)
        self.failures: dict[str, str] = {}

    def evaluate(self, rules: Sequence[Rule], instant: Instant) -> Mapping[str, Evaluation]:
        """The rules that could be judged, by name; `failures` has the others of this round."""
        self.failures = {}
        asking = [rule for rule in rules if not isinstance(rule.condition, SilenceCondition)]
        found = dict(self._together(asking, instant))
        if self._last_seen is not None:
            for rule in rules:
                if isinstance(rule.condition, SilenceCondition):
                    found |= self._silent(self._last_seen, rule, rule.condition, instant)
        return found

    def _together(
        self, rules: Sequence[Rule], instant: Instant
    ) -> Iterator[tuple[str, Evaluation]]:
        if not rules:
            return
        try:
            yield from self._judge(rules, instant)
        except Exception as error:  # noqa: BLE001 - one rule must not stop the others
            if len(rules) == 1:
                self._failed(rules[0], error)
                return
            for rule in rules:
                yield from self._together([rule], instant)

    def _judge(self, rules: Sequence[Rule], instant: Instant) -> Sequence[tuple[str, Evaluation]]:
        conditions = [condition for rule in rules for condition in _conditions(rule)]
        answer = self._source.round(conditions, instant.at_s)
        judgements = iter(answer.judgements)
        found: list[tuple[str, Evaluation]] = []
        for rule in rules:
            condition = next(judgements)
            clears = next(judgements).verdicts if rule.clear else None
            roster = answer.rosters[rule.each]
            verdicts = condition.verdicts
            one = Evaluation(instant.now_s, roster, verdicts, clears, condition.at)
            found.append((rule.name, one))
        return found

    def _silent(
        self, last_seen: LastSeen, rule: Rule, silence: SilenceCondition, instant: Instant
    ) -> dict[str, Evaluation]:
        times = instant.now_s, instant.running_s
        try:
            return {rule.name: judge_silence(last_seen, rule.each, silence, times)}
        except Exception as error:  # noqa: BLE001 - as above: a server that is asked may be away
            self._failed(rule, error)
            return {}

    def _failed(self, rule: Rule, error: Exception) -> None:
        self.failures[rule.name] = type(error).__name__
        message = f"{type(error).__name__}: {error}"
        self._once.log(f"rule {rule.name} cannot be judged: {message}")


def _conditions(rule: Rule) -> Iterator[Condition]:

    for expression in (rule.condition, rule.clear):
        if expression is not None and not isinstance(expression, SilenceCondition):
            yield Condition(expression, rule.limits)
