"""Conditions evaluated on what a server answers: query results -> verdicts with their evidence.

Each vector is queried once a round, whichever conditions need it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from otel_ofu.model import EntityKind
from otel_ofu.rules import algebra
from otel_ofu.rules.algebra import Truths, Values
from otel_ofu.rules.language.syntax import (
    Aggregate,
    Boolean,
    Compare,
    FlagCondition,
    Latest,
    Numeric,
    Over,
    comparisons,
)
from otel_ofu.rules.promql.compiler import Compiler, checked_text
from otel_ofu.rules.promql.server import Queries
from otel_ofu.rules.promql.vectors import Key, Value, Vector, entity_of, key_of
from otel_ofu.rules.verdicts import Evaluation, Explained, Judgement, Question, Roster
from otel_ofu.store.fleet import KINDS


class QueryResults:
    """Asks at one instant. Entities of every answer get columns, until `close`."""

    def __init__(self, queries: Queries, at_s: float) -> None:
        self._queries = queries
        self._at_s = at_s
        self._answers: dict[tuple[EntityKind, str], Mapping[Key, float]] = {}
        self._values: dict[tuple[EntityKind, str], Values] = {}
        self._columns: dict[EntityKind, dict[Key, int]] = {kind: {} for kind in KINDS}
        self._closed = False

    def query(self, kind: EntityKind, value: Value) -> None:
        """Asks for a value that has the labels of a kind. Raises QueryError, NotInPromql."""
        if isinstance(value, Vector):
            self._answer(kind, checked_text(value))

    def close(self) -> None:
        """From now on the columns stay as they are; others in later answers are left out."""
        self._closed = True

    def values(self, kind: EntityKind, value: Value) -> Values:
        """One value a column, NaN where there is none; only after `close`.

        What was not queried before is queried now. Raises QueryError, NotInPromql.
        """
        if not isinstance(value, Vector):
            constant = math.nan if value is None else value
            return algebra.spread(constant, self.columns(kind))
        key = kind, checked_text(value)
        if key not in self._values:
            self._values[key] = self._spread(kind, self._answer(*key))
        return self._values[key]

    def columns(self, kind: EntityKind) -> int:
        return len(self._columns[kind])

    def roster(self, kind: EntityKind) -> Roster:
        return Roster([entity_of(kind, key) for key in self._columns[kind]])

    def _answer(self, kind: EntityKind, text: str) -> Mapping[Key, float]:
        if (kind, text) not in self._answers:
            samples = self._queries.query(text, self._at_s)
            answer = {key_of(kind, labels): one for labels, one in samples}
            self._answers[kind, text] = answer
            if not self._closed:
                columns = self._columns[kind]
                for key in answer:
                    columns.setdefault(key, len(columns))
        return self._answers[kind, text]

    def _spread(self, kind: EntityKind, answer: Mapping[Key, float]) -> Values:
        columns = self._columns[kind]
        values = np.full(len(columns), np.nan, np.float32)
        known = [(columns[key], value) for key, value in answer.items() if key in columns]
        with np.errstate(over="ignore"):
            values[[column for column, _ in known]] = [value for _, value in known]
        return values


@dataclass(frozen=True, slots=True)
class ConditionEvaluation:
    """`query` everything before `judge`, so that all entities have their columns."""

    question: Question
    compiler: Compiler
    results: QueryResults

    @property
    def kind(self) -> EntityKind:
        return self.question.expression.each

    def query(self) -> None:
        """Both sides of each comparison. Raises QueryError, NotInPromql."""
        for leaf in comparisons(self.question.expression.root):
            for side in sides(leaf):
                self.results.query(self.kind, self.compiler.for_all(self.compiler.value(side)))

    def judge(self) -> Judgement:
        """The verdicts; coverage is queried only where the condition holds for an entity."""
        return self._evaluation().judge(coverage_of_firing_only=True)

    def explain(self, column: int) -> Iterator[Explained]:
        """Every part at one entity, the whole first."""
        return self._evaluation().explain(column)

    def _evaluation(self) -> Evaluation:
        return Evaluation(self.question, self._truths, self._values, self._coverage)

    def _truths(self, node: Boolean) -> Truths:
        columns = self.results.columns(self.kind)
        return algebra.truth(node, columns, self._values, self._truths)

    def _values(self, node: Numeric) -> Values:
        return self._spread(self.compiler.value(node))

    def _coverage(self, node: Over | Aggregate) -> Values:
        return self._spread(self.compiler.coverage(node))

    def _spread(self, value: Value) -> Values:
        return self.results.values(self.kind, self.compiler.for_all(value))


def sides(leaf: Compare | FlagCondition) -> tuple[Numeric, ...]:
    """The numbers that a comparison is about."""
    return (leaf.left, leaf.right) if isinstance(leaf, Compare) else (Latest(leaf.metric),)
