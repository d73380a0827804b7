"""The embedded engine: conditions judged over the store, for all entities at once.

Enters: questions and an instant. Leaves: a `Round`, or the parts of one condition at one entity.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from otel_ofu.model import EntityKind
from otel_ofu.rules.language.syntax import DataLimits, Over, owner, placed
from otel_ofu.rules.numpy.evaluation import NodeEvaluator
from otel_ofu.rules.numpy.samples import RoundSamples
from otel_ofu.rules.verdicts import (
    UNKNOWN,
    Evaluation,
    Explained,
    Judgement,
    Question,
    Roster,
    Round,
)
from otel_ofu.store import Store
from otel_ofu.store.fleet import KINDS


class NumpyEngine:
    """Judges conditions over a store. The store is not written during a round."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def round(self, questions: Sequence[Question], at_s: float) -> Round:
        """All questions at one instant: windows end there, and nothing later is seen."""
        with self._store.reading():
            judge = _Judge(self._store, questions, at_s)
            judgements = [judge.judge(question) for question in questions]
            return Round(at_s, judge.rosters, judgements)

    def explain(self, question: Question, at_s: float, entity_id: str) -> Sequence[Explained]:
        """Every part of a condition at one entity, the whole first. Raises KeyError."""
        with self._store.reading():
            judge = _Judge(self._store, [question], at_s)
            column = judge.rosters[question.expression.each].column(entity_id)
            if column is None:
                raise KeyError(entity_id)
            return list(judge.evaluation(question).explain(column))


class _Judge:
    """One round: evaluators by their limits over the same samples."""

    def __init__(self, store: Store, questions: Sequence[Question], at_s: float) -> None:
        self._store = store
        self._samples = RoundSamples(store, at_s, _windows(questions))
        self._evaluators: dict[DataLimits, NodeEvaluator] = {}
        self._nobody = {kind: ~store.slots(kind).live() for kind in KINDS}
        self.rosters = {kind: Roster(store.slots(kind).by_column()) for kind in KINDS}

    def evaluation(self, question: Question) -> Evaluation:
        """A condition in this round; those of equal limits share what they compute."""
        kind = question.expression.each
        if question.limits not in self._evaluators:
            evaluator = NodeEvaluator(self._store, self._samples, question.limits)
            self._evaluators[question.limits] = evaluator
        evaluator = self._evaluators[question.limits]
        return Evaluation(
            question,
            partial(evaluator.truths, kind),
            partial(evaluator.values, kind),
            partial(evaluator.coverage, kind),
        )

    def judge(self, question: Question) -> Judgement:
        judgement = self.evaluation(question).judge()
        nobody = self._nobody[question.expression.each]
        verdicts = np.where(nobody, np.int8(UNKNOWN), judgement.verdicts)
        return replace(judgement, verdicts=verdicts)


def _windows(questions: Sequence[Question]) -> Iterator[tuple[EntityKind, Over]]:
    """Every window of the questions, with the kind of entity whose metric it is over."""
    for question in questions:
        for node, kind in placed(question.expression.root, question.expression.each):
            if isinstance(node, Over):
                yield owner(kind, node.scope), node
