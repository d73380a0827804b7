"""What an engine answers: for one condition, a verdict and its evidence for every entity.

`explain` asks an engine why a rule holds or not for one entity: its parts with their values.

Arrays run over columns: `Roster.entities[column]` is the entity, None for a column without one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from otel_ofu.model import Entity, EntityKind
from otel_ofu.rules.algebra import Truths, Values
from otel_ofu.rules.files.rule import Rule
from otel_ofu.rules.language.printing import to_text
from otel_ofu.rules.language.syntax import (
    DEFAULT_LIMITS,
    Aggregate,
    Boolean,
    Compare,
    ComparisonNode,
    DataLimits,
    Expression,
    FlagCondition,
    Numeric,
    Over,
    visible,
)

HOLDS = 1
CLEAR = 0
UNKNOWN = -1

Verdicts = NDArray[np.int8]


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition to judge, and how much it takes to know."""

    expression: Expression
    limits: DataLimits = DEFAULT_LIMITS


@dataclass(frozen=True, slots=True)
class EntityComparison:
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

    def at(self, column: int) -> EntityComparison:
        return EntityComparison(
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

    condition: Condition
    verdicts: Verdicts
    comparisons: Sequence[Comparison]

    def at(self, column: int) -> Sequence[EntityComparison]:
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
class VerdictRound:
    """All conditions judged at one instant, in the order of the questions."""

    at_s: float
    rosters: Mapping[EntityKind, Roster]
    judgements: Sequence[Judgement]


@dataclass(frozen=True, slots=True)
class ConditionPart:
    """A part of a condition at one entity: a number, or a verdict for a condition."""

    text: str
    depth: int
    value: float = math.nan
    verdict: int | None = None


@dataclass(frozen=True, slots=True)
class EvaluatedCondition:
    """One condition in a round of any engine.

    `truths`, `values` and `coverage` give a node by column: whether it holds, its number, and how
    much there is of what a window or a group rests on.
    """

    condition: Condition
    truths: Callable[[Boolean], Truths]
    values: Callable[[Numeric], Values]
    coverage: Callable[[Over | Aggregate], Values]

    def judge(self, *, coverage_of_firing_only: bool = False) -> Judgement:
        """The verdicts with their evidence; TypeError for a number.

        `coverage_of_firing_only`: no coverage unless the condition holds for an entity.
        """
        expression = self.condition.expression
        root = expression.root
        if not isinstance(root, Boolean):
            raise TypeError(f"no condition: {expression.text}")
        verdicts = _verdicts(self.truths(root))
        covered = not coverage_of_firing_only or bool((verdicts == HOLDS).any())
        evidence = [self._comparison(one, covered=covered) for one in expression.comparisons]
        return Judgement(self.condition, verdicts, evidence)

    def explain(self, column: int) -> Iterator[ConditionPart]:
        """Every part at one entity, the whole first."""
        for node, depth in visible(self.condition.expression.root):
            if isinstance(node, Boolean):
                verdict = int(_verdicts(self.truths(node))[column])
                yield ConditionPart(to_text(node), depth, verdict=verdict)
            else:
                yield ConditionPart(to_text(node), depth, value=float(self.values(node)[column]))

    def _comparison(self, one: ComparisonNode, *, covered: bool) -> Comparison:
        leaf = one.node
        verdicts = _verdicts(self.truths(leaf))
        if isinstance(leaf, FlagCondition):
            values = np.where(verdicts == UNKNOWN, np.nan, verdicts).astype(np.float32)
            return Comparison(leaf, verdicts, values, np.zeros_like(values), 0.0, ())
        coverages = tuple(map(self.coverage, one.rests_on)) if covered else ()
        left, right = self.values(leaf.left), self.values(leaf.right)
        return Comparison(leaf, verdicts, left, right, one.window_s, coverages)


def _verdicts(truths: Truths) -> Verdicts:
    """NO, MAYBE, YES (0, 1, 2) as CLEAR, UNKNOWN, HOLDS (0, -1, 1)."""
    verdicts: Verdicts = ((truths >> np.uint8(1)) - (truths & np.uint8(1))).view(np.int8)
    return verdicts


class ConditionExplainer(Protocol):
    """An engine that can take a condition apart (otel_ofu.rules.numpy.engine)."""

    def round(self, conditions: Sequence[Condition], at_s: float) -> VerdictRound: ...

    def explain(
        self, condition: Condition, at_s: float, entity_id: str
    ) -> Sequence[ConditionPart]: ...


@dataclass(frozen=True, slots=True)
class Explanation:
    """One condition at one entity: `title` is `expr` or `clear`.

    `parts`: the whole first, then every sub-expression. `evidence`: its comparisons with both
    sides, window and coverage.
    """

    title: str
    parts: Sequence[ConditionPart]
    evidence: Sequence[EntityComparison]


def explain(
    engine: ConditionExplainer, rule: Rule, entity_id: str, at_s: float
) -> list[Explanation]:
    """The conditions of a rule at an entity; none for a rule on silence. Raises KeyError."""
    conditions = (("expr", rule.condition), ("clear", rule.clear))
    return [
        _explained(engine, title, Condition(condition, rule.limits), (entity_id, at_s))
        for title, condition in conditions
        if isinstance(condition, Expression)
    ]


def _explained(
    engine: ConditionExplainer, title: str, condition: Condition, where: tuple[str, float]
) -> Explanation:
    entity_id, at_s = where
    parts = engine.explain(condition, at_s, entity_id)
    answer = engine.round([condition], at_s)
    column = answer.rosters[condition.expression.each].column(entity_id)
    evidence = () if column is None else answer.judgements[0].at(column)
    return Explanation(title, parts, evidence)
