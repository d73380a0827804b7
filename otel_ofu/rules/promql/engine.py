"""The same conditions judged by a Prometheus-like server: a round of queries -> a `Round`.

Queried are the numbers on both sides of each comparison, once a round however many rules use
them; comparing them, and the logic of three values, happen here. So evidence comes with every
verdict, and the answer is that of the embedded engine.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from otel_ofu.catalog.registry import Registry
from otel_ofu.model import Entity, EntityKind
from otel_ofu.model.clock import Clock, SystemClock
from otel_ofu.rules.language.syntax import comparisons
from otel_ofu.rules.lifecycle.silence import Times
from otel_ofu.rules.promql.compiler import Compiler, checked_text
from otel_ofu.rules.promql.evaluation import ConditionEvaluation, QueryResults, sides
from otel_ofu.rules.promql.samples import MetricVectors
from otel_ofu.rules.promql.server import Queries, ServerUnavailable
from otel_ofu.rules.promql.vectors import CompilerSettings, entity_of, key_of
from otel_ofu.rules.verdicts import Explained, Question, Round
from otel_ofu.store.fleet import KINDS


class PromqlEngine:
    """Judges conditions by asking a server. `step_s`: seconds between the samples it holds.

    A round is whole or there is none: QueryError when one of its queries has no answer.
    """

    def __init__(self, queries: Queries, registry: Registry, *, step_s: float = 10.0) -> None:
        self._queries = queries
        self._registry = registry
        self._step_s = step_s
        self._unavailable: tuple[float, str] | None = None

    def check(self, question: Question) -> None:
        """Whether a condition can be queried at all. Raises NotInPromql."""
        compiler = self._compiler(question)
        for leaf in comparisons(question.expression.root):
            for side in sides(leaf):
                checked_text(compiler.for_all(compiler.value(side)))

    def round(self, questions: Sequence[Question], at_s: float) -> Round:
        """All questions at one instant. Raises QueryError, NotInPromql.

        A server that was unavailable at this instant is not queried again for it: a caller that
        tries rule by rule does not wait for each of them.
        """
        if self._unavailable and self._unavailable[0] == at_s:
            raise ServerUnavailable(self._unavailable[1])
        try:
            return self._round(questions, at_s)
        except ServerUnavailable as error:
            self._unavailable = at_s, str(error)
            raise

    def _round(self, questions: Sequence[Question], at_s: float) -> Round:
        results = QueryResults(self._queries, at_s)
        evaluations = [
            ConditionEvaluation(question, self._compiler(question), results)
            for question in questions
        ]
        kinds = [
            kind for kind in KINDS if any(evaluation.kind == kind for evaluation in evaluations)
        ]
        self._query(results, evaluations, kinds)
        judgements = [evaluation.judge() for evaluation in evaluations]
        return Round(at_s, {kind: results.roster(kind) for kind in KINDS}, judgements)

    def explain(self, question: Question, at_s: float, entity_id: str) -> Sequence[Explained]:
        """Every part of a condition at one entity, the whole first.

        Raises KeyError for an entity that is not there, QueryError, NotInPromql.
        """
        results, kind = QueryResults(self._queries, at_s), question.expression.each
        evaluation = ConditionEvaluation(question, self._compiler(question), results)
        self._query(results, [evaluation], [kind])
        column = results.roster(kind).column(entity_id)
        if column is None:
            raise KeyError(entity_id)
        return list(evaluation.explain(column))

    def _query(
        self,
        results: QueryResults,
        evaluations: Sequence[ConditionEvaluation],
        kinds: Sequence[EntityKind],
    ) -> None:
        for evaluation in evaluations:
            evaluation.query()
        for kind in kinds:  # an entity without any value is unknown, but there
            settings = CompilerSettings(self._step_s, closed_windows=True)
            results.query(kind, MetricVectors(self._registry, settings, kind).present())
        results.close()

    def _compiler(self, question: Question) -> Compiler:
        settings = CompilerSettings(self._step_s, question.limits, closed_windows=True)
        return Compiler(MetricVectors(self._registry, settings, question.expression.each))


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
