"""What an engine answers: for one condition, a verdict and its evidence for every entity.

`explain` asks an engine why a rule holds or not for one entity: its parts with their values.

Arrays run over columns: `Roster.entities[column]` is the entity, None for a column without one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from otel_ofu.model import Entity, EntityKind
from otel_ofu.rules.files.rule import Rule
from otel_ofu.rules.language.syntax import Compare, Expression, FlagCondition

HOLDS = 1
CLEAR = 0
UNKNOWN = -1

MIN_COVERAGE = 0.5
MIN_PEERS = 4

Verdicts = NDArray[np.int8]
Values = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Question:
    """A condition to judge, and how much it takes to know.

    `min_coverage`: the share of a window's samples that must be there, in [0, 1]; `count` and
    `last` need none. `min_peers`: the fewest GPUs with a value, itself included, of `peers.*`.
    """

    expression: Expression
    min_coverage: float = MIN_COVERAGE
    min_peers: int = MIN_PEERS


@dataclass(frozen=True, slots=True)
class Observed:
    """One comparison at one entity: what it was about, in numbers. NaN for no value.

    `window_s`: the longest window in it, 0 for last values. `coverage`: the smallest share of
    samples in one of its windows, or of GPUs in one of its groups.
    """

    node: Compare | FlagCondition
    verdict: int
    value: float
    threshold: float
    window_s: float
    coverage: float


@dataclass(frozen=True, slots=True)
class Comparison:
    """One comparison for all entities: both sides, by column.

    `coverages`: for each of its windows the share of samples that are there, and for each of its
    groups the share of GPUs that have a value.
    """

    node: Compare | FlagCondition
    verdicts: Verdicts
    values: Values
    thresholds: Values
    window_s: float
    coverages: Sequence[Values]

    def at(self, column: int) -> Observed:
        return Observed(
            self.node,
            int(self.verdicts[column]),
            float(self.values[column]),
            float(self.thresholds[column]),
            self.window_s,
            _least(float(coverage[column]) for coverage in self.coverages),
        )


def _least(coverages: Iterable[float]) -> float:
    """The smallest that is known; NaN when none is. `min` alone depends on where a NaN stands."""
    return min((known for known in coverages if not math.isnan(known)), default=math.nan)


@dataclass(frozen=True, slots=True)
class Judgement:
    """One condition: HOLDS, CLEAR or UNKNOWN by column, UNKNOWN for a column without an entity.

    `comparisons`: the comparisons and flags that the verdict rests on, in the order of the text.
    """

    question: Question
    verdicts: Verdicts
    comparisons: Sequence[Comparison]

    def at(self, column: int) -> Sequence[Observed]:
        """The evidence for one entity."""
        return [comparison.at(column) for comparison in self.comparisons]


@dataclass(frozen=True)
class Roster:
    """Which entity had which column at the time of a round; None for a column without one."""

    entities: Sequence[Entity | None]

    @cached_property
    def columns(self) -> Mapping[str, int]:
        """The columns by entity id."""
        return {e.id: i for i, e in enumerate(self.entities) if e is not None}

    def column(self, entity_id: str) -> int | None:
        return self.columns.get(entity_id)


@dataclass(frozen=True, slots=True)
class Round:
    """All conditions judged at one instant, in the order of the questions."""

    at_s: float
    rosters: Mapping[EntityKind, Roster]
    judgements: Sequence[Judgement]


@dataclass(frozen=True, slots=True)
class Explained:
    """A part of a condition at one entity: a number, or a verdict for a condition."""

    text: str
    depth: int
    value: float = math.nan
    verdict: int | None = None


class Explains(Protocol):
    """An engine that can take a condition apart (otel_ofu.rules.numpy.engine)."""

    def round(self, questions: Sequence[Question], at_s: float) -> Round: ...

    def explain(self, question: Question, at_s: float, entity_id: str) -> Sequence[Explained]: ...


@dataclass(frozen=True, slots=True)
class Explanation:
    """One condition at one entity: `title` is `expr` or `clear`.

    `parts`: the whole first, then every sub-expression. `evidence`: its comparisons with both
    sides, window and coverage.
    """

    title: str
    parts: Sequence[Explained]
    evidence: Sequence[Observed]


def explain(engine: Explains, rule: Rule, entity_id: str, at_s: float) -> list[Explanation]:
    """The conditions of a rule at an entity; none for a rule on silence. Raises KeyError."""
    conditions = (("expr", rule.condition), ("clear", rule.clear))
    return [
        _explained(engine, title, _question(rule, condition), (entity_id, at_s))
        for title, condition in conditions
        if isinstance(condition, Expression)
    ]


def _question(rule: Rule, condition: Expression) -> Question:
    return Question(condition, rule.limits.min_coverage, rule.limits.min_peers)


def _explained(
    engine: Explains, title: str, question: Question, where: tuple[str, float]
) -> Explanation:
    entity_id, at_s = where
    parts = engine.explain(question, at_s, entity_id)
    answer = engine.round([question], at_s)
    column = answer.rosters[question.expression.each].column(entity_id)
    evidence = () if column is None else answer.judgements[0].at(column)
    return Explanation(title, parts, evidence)
