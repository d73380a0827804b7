"""The same conditions judged by a Prometheus-like server: a round of queries -> a `VerdictRound`.

Queried are the numbers on both sides of each comparison, once a round however many rules use
them; comparing them, and the logic of three values, happen here. So evidence comes with every
verdict, and the answer is that of the embedded engine.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from otel_ofu.catalog.registry import Registry
from otel_ofu.model import Entity, EntityKind
from otel_ofu.model.clock import Clock, SystemClock
from otel_ofu.rules import algebra
from otel_ofu.rules.algebra import Truths, Values
from otel_ofu.rules.language.syntax import Aggregate, Boolean, FlagCondition, Latest, Numeric, Over
from otel_ofu.rules.lifecycle.evaluation import Times
from otel_ofu.rules.promql.compiler import Compiler, checked_text
from otel_ofu.rules.promql.samples import MetricVectors
from otel_ofu.rules.promql.server import Queries, ServerUnavailableError
from otel_ofu.rules.promql.vectors import CompilerSettings, Key, Value, Vector, entity_of, key_of
from otel_ofu.rules.verdicts import (
    Condition,
    ConditionPart,
    EvaluatedCondition,
    Roster,
    VerdictRound,
)
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
        """Asks for a value that has the labels of a kind. Raises QueryError, NotInPromqlError."""
        if isinstance(value, Vector):
            self._answer(kind, checked_text(value))

    def close(self) -> None:
        """From now on the columns stay as they are; others in later answers are left out."""
        self._closed = True

    def values(self, kind: EntityKind, value: Value) -> Values:
        """One value a column, NaN where there is none; only after `close`.

        What was not queried before is queried now. Raises QueryError, NotInPromqlError.
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
    """`query` everything before `evaluated`, so that all entities have their columns."""

    condition: Condition
    compiler: Compiler
    results: QueryResults

    @property
    def kind(self) -> EntityKind:
        return self.condition.expression.each

    def query(self) -> None:
        """Both sides of each comparison. Raises QueryError, NotInPromqlError."""
        for value in _sides(self.condition, self.compiler):
            self.results.query(self.kind, value)

    def evaluated(self) -> EvaluatedCondition:
        """After `query`, and after `close` of the results."""
        return EvaluatedCondition(self.condition, self._truths, self._values, self._coverage)

    def _truths(self, node: Boolean) -> Truths:
        columns = self.results.columns(self.kind)
        return algebra.truth(node, columns, self._values, self._truths)

    def _values(self, node: Numeric) -> Values:
        return self._spread(self.compiler.value(node))

    def _coverage(self, node: Over | Aggregate) -> Values:
        return self._spread(self.compiler.coverage(node))

    def _spread(self, value: Value) -> Values:
        return self.results.values(self.kind, self.compiler.for_all(value))


def _sides(condition: Condition, compiler: Compiler) -> Iterator[Value]:
    """The numbers that the comparisons of a condition are about."""
    for one in condition.expression.comparisons:
        leaf = one.node
        nodes = (
            [Latest(leaf.metric)] if isinstance(leaf, FlagCondition) else [leaf.left, leaf.right]
        )
        for node in nodes:
            yield compiler.for_all(compiler.value(node))


class PromqlEngine:
    """Judges conditions by asking a server. `step_s`: seconds between the samples it holds.

    A round is whole or there is none: QueryError when one of its queries has no answer.
    """

    def __init__(self, queries: Queries, registry: Registry, *, step_s: float = 10.0) -> None:
        self._queries = queries
        self._registry = registry
        self._step_s = step_s
        self._unavailable: tuple[float, str] | None = None

    def check(self, condition: Condition) -> None:
        """Whether a condition can be queried at all. Raises NotInPromqlError."""
        for value in _sides(condition, self._compiler(condition)):
            checked_text(value)

    def round(self, conditions: Sequence[Condition], at_s: float) -> VerdictRound:
        """All questions at one instant. Raises QueryError, NotInPromqlError.

        A server that was unavailable at this instant is not queried again for it: a caller that
        tries rule by rule does not wait for each of them.
        """
        if self._unavailable and self._unavailable[0] == at_s:
            raise ServerUnavailableError(self._unavailable[1])
        try:
            return self._round(conditions, at_s)
        except ServerUnavailableError as error:
            self._unavailable = at_s, str(error)
            raise

    def _round(self, conditions: Sequence[Condition], at_s: float) -> VerdictRound:
        results = QueryResults(self._queries, at_s)
        evaluations = [
            ConditionEvaluation(condition, self._compiler(condition), results)
            for condition in conditions
        ]
        self._query(results, evaluations)
        # Coverage is queried only where the condition holds for an entity.
        judgements = [e.evaluated().judge(coverage_of_firing_only=True) for e in evaluations]
        return VerdictRound(at_s, {kind: results.roster(kind) for kind in KINDS}, judgements)

    def explain(self, condition: Condition, at_s: float, entity_id: str) -> Sequence[ConditionPart]:
        """Every part of a condition at one entity, the whole first.

        Raises KeyError for an entity that is not there, QueryError, NotInPromqlError.
        """
        results, kind = QueryResults(self._queries, at_s), condition.expression.each
        evaluation = ConditionEvaluation(condition, self._compiler(condition), results)
        self._query(results, [evaluation])
        column = results.roster(kind).column(entity_id)
        if column is None:
            raise KeyError(entity_id)
        return list(evaluation.evaluated().explain(column))

    def _query(self, results: QueryResults, evaluations: Sequence[ConditionEvaluation]) -> None:
        for evaluation in evaluations:
            evaluation.query()
        queried = {evaluation.kind for evaluation in evaluations}
        settings = CompilerSettings(self._step_s, closed_windows=True)
        for kind in KINDS:
            if kind in queried:  # an entity without any value is unknown, but there
                results.query(kind, MetricVectors(self._registry, settings, kind).present())
        results.close()

    def _compiler(self, condition: Condition) -> Compiler:
        settings = CompilerSettings(self._step_s, condition.limits, closed_windows=True)
        return Compiler(MetricVectors(self._registry, settings, condition.expression.each))


class PromqlLastSeen:
    """Entities that were seen within the last hour. `last_seen` raises QueryError."""

    def __init__(self, queries: Queries, registry: Registry, *, clock: Clock | None = None) -> None:
        self._queries = queries
        self._registry = registry
        self._clock = clock or SystemClock()

    def last_seen(self, kind: EntityKind) -> tuple[Sequence[Entity | None], Times]:
        """The entities, and when each was seen, in Unix seconds."""
        text = MetricVectors(self._registry, CompilerSettings(), kind).seen().text
        samples = self._queries.query(text, self._clock.now_s())
        seen = {key_of(kind, labels): time_s for labels, time_s in samples}
        return [entity_of(kind, key) for key in seen], np.array(list(seen.values()), np.float64)
