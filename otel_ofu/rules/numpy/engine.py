"""The embedded engine: conditions judged over the store, for all entities at once.

Enters: questions and an instant. Leaves: a `Round`, or the parts of one condition at one entity.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from otel_ofu.model import EntityKind
from otel_ofu.rules.algebra import MAYBE, Truths, Values, spread
from otel_ofu.rules.language.printing import to_text
from otel_ofu.rules.language.syntax import (
    Aggregate,
    Boolean,
    Compare,
    FlagCondition,
    Node,
    Over,
    children,
    comparisons,
    owner,
    placed,
    walk,
)
from otel_ofu.rules.numpy.evaluation import Demand, NodeEvaluator
from otel_ofu.rules.numpy.samples import RoundSamples
from otel_ofu.rules.verdicts import (
    UNKNOWN,
    Comparison,
    Explained,
    Judgement,
    Question,
    Roster,
    Round,
    Verdicts,
)
from otel_ofu.store import Store

KINDS: tuple[EntityKind, ...] = ("gpu", "job", "node")


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
            return list(judge.explain(question, column))


class _Judge:
    """One round: evaluators by demand over the same samples."""

    def __init__(self, store: Store, questions: Sequence[Question], at_s: float) -> None:
        self._store = store
        self._samples = RoundSamples(store, at_s, _windows(questions))
        self._evaluators: dict[Demand, NodeEvaluator] = {}
        self._nobody = {kind: ~store.slots(kind).live() for kind in KINDS}
        self.rosters = {kind: Roster(store.slots(kind).by_column()) for kind in KINDS}

    def judge(self, question: Question) -> Judgement:
        evaluator, kind = self._evaluator(question), question.expression.each
        truths = evaluator.truths(kind, _condition(question))
        evidence = [
            _evidence(evaluator, kind, leaf) for leaf in comparisons(question.expression.root)
        ]
        return Judgement(
            question, _verdicts(np.where(self._nobody[kind], np.uint8(MAYBE), truths)), evidence
        )

    def explain(self, question: Question, column: int) -> Iterator[Explained]:
        evaluator, kind = self._evaluator(question), question.expression.each
        for node, depth in visible(question.expression.root):
            if isinstance(node, Boolean):
                verdict = int(_verdicts(evaluator.truths(kind, node))[column])
                yield Explained(to_text(node), depth, verdict=verdict)
            else:
                value = float(evaluator.values(kind, node)[column])
                yield Explained(to_text(node), depth, value=value)

    def _evaluator(self, question: Question) -> NodeEvaluator:
        demand = Demand(question.min_coverage, question.min_peers)
        if demand not in self._evaluators:
            self._evaluators[demand] = NodeEvaluator(self._store, self._samples, demand)
        return self._evaluators[demand]


def _condition(question: Question) -> Boolean:
    root = question.expression.root
    if not isinstance(root, Boolean):
        raise TypeError(f"no condition: {question.expression.text}")
    return root


def _verdicts(truths: Truths) -> Verdicts:
    """NO, MAYBE, YES (0, 1, 2) as CLEAR, UNKNOWN, HOLDS (0, -1, 1)."""
    verdicts: Verdicts = ((truths >> np.uint8(1)) - (truths & np.uint8(1))).view(np.int8)
    return verdicts


def _windows(questions: Sequence[Question]) -> Iterator[tuple[EntityKind, Over]]:
    """Every window of the questions, with the kind of entity whose metric it is over."""
    for question in questions:
        for node, kind in placed(question.expression.root, question.expression.each):
            if isinstance(node, Over):
                yield owner(kind, node.scope), node


def _evidence(
    evaluator: NodeEvaluator, kind: EntityKind, leaf: Compare | FlagCondition
) -> Comparison:
    verdicts = _verdicts(evaluator.truths(kind, leaf))
    if isinstance(leaf, FlagCondition):
        values = np.where(verdicts == UNKNOWN, np.nan, verdicts).astype(np.float32)
        return Comparison(leaf, verdicts, values, spread(0.0, len(verdicts)), 0.0, ())
    return Comparison(
        leaf,
        verdicts,
        evaluator.values(kind, leaf.left),
        evaluator.values(kind, leaf.right),
        max((node.window_s for node in walk(leaf) if isinstance(node, Over)), default=0.0),
        _coverages(evaluator, kind, leaf),
    )


def _coverages(evaluator: NodeEvaluator, kind: EntityKind, leaf: Compare) -> tuple[Values, ...]:
    """The coverage of each window and group that a comparison is about."""
    parts = [node for node, _ in visible(leaf) if isinstance(node, Over | Aggregate)]
    return tuple(evaluator.coverage(kind, node) for node in parts)


def visible(root: Node, depth: int = 0) -> Iterator[tuple[Node, int]]:
    """The nodes that have one value for the entity itself, and their depth: none in a group."""
    yield root, depth
    if not isinstance(root, Aggregate):
        for child in children(root):
            yield from visible(child, depth + 1)
