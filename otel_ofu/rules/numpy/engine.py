"""The embedded engine: conditions judged over the store, for all entities at once.

Enters: a store, questions and an instant. Leaves: a `VerdictRound`, or the parts of one condition
at one entity. Whatever stands in several conditions is computed once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import assert_never

import numpy as np

from otel_ofu.model import EntityKind
from otel_ofu.rules import algebra
from otel_ofu.rules.algebra import MAYBE, YES, Columns, Quantity, Truths, Values
from otel_ofu.rules.functions import SCALAR_FUNCTIONS, WINDOW_FUNCTIONS, group_function
from otel_ofu.rules.functions.groups import GroupedValues
from otel_ofu.rules.language.syntax import (
    Aggregate,
    Arithmetic,
    Boolean,
    DataLimits,
    Latest,
    Negative,
    Number,
    Numeric,
    Over,
    Relation,
    Scalar,
    owner,
)
from otel_ofu.rules.numpy.samples import RoundSamples
from otel_ofu.rules.verdicts import (
    UNKNOWN,
    Condition,
    ConditionPart,
    EvaluatedCondition,
    Judgement,
    Roster,
    VerdictRound,
)
from otel_ofu.store import Store
from otel_ofu.store.fleet import KINDS

# A window of 30 samples in which 15 are there is half full, whatever the rounding.
_SLACK = 1e-6


class NodeEvaluator:
    """The values of one round under some limits; `samples` may serve several evaluators."""

    def __init__(self, store: Store, samples: RoundSamples, limits: DataLimits) -> None:
        self._store = store
        self._samples = samples
        self._limits = limits
        self._numbers: dict[tuple[EntityKind, Numeric], Quantity] = {}
        self._truths: dict[tuple[EntityKind, Boolean], Truths] = {}
        self._shares: dict[tuple[EntityKind, Aggregate], Values] = {}

    def columns(self, kind: EntityKind) -> int:
        return len(self._store.slots(kind))

    def number(self, kind: EntityKind, node: Numeric) -> Quantity:
        """The values of a number for the entities of a kind."""
        if isinstance(node, Number):
            return node.value
        key = kind, node
        found = self._numbers.get(key)  # hashing a tree costs as much as a small sum
        if found is None:
            found = self._numbers[key] = self._number(kind, node)
        return found

    def values(self, kind: EntityKind, node: Numeric) -> Values:
        """The same, with one value a column."""
        return algebra.spread(self.number(kind, node), self.columns(kind))

    def truths(self, kind: EntityKind, node: Boolean) -> Truths:
        """The truths of a condition for the entities of a kind."""
        key = kind, node
        found = self._truths.get(key)
        if found is None:
            found = self._truths[key] = algebra.truth(
                node, self.columns(kind), partial(self.number, kind), partial(self.truths, kind)
            )
        return found

    def coverage(self, kind: EntityKind, node: Over | Aggregate) -> Values:
        """How much there is of what a value rests on: samples of a window, GPUs of a group."""
        if isinstance(node, Aggregate):
            self.number(kind, node)
            return self._shares[kind, node]
        metric_kind = owner(kind, node.scope)
        return self._joined(kind, metric_kind, self._samples.over(metric_kind, node)[1])

    def _number(self, kind: EntityKind, node: Numeric) -> Quantity:
        match node:
            case Number():
                return node.value
            case Latest():
                metric_kind = owner(kind, node.scope)
                return self._joined(kind, metric_kind, self._samples.latest(metric_kind, node))
            case Over():
                return self._over(kind, node)
            case Aggregate():
                return self._group(kind, node)
            case _:
                return self._arithmetic(kind, node)

    def _arithmetic(self, kind: EntityKind, node: Scalar | Negative | Arithmetic) -> Quantity:
        match node:
            case Scalar():
                operand = self.number(kind, node.operand)
                return algebra.apply(SCALAR_FUNCTIONS[node.function].compute, operand)
            case Negative():
                return -self.number(kind, node.operand)
            case Arithmetic():
                left, right = self.number(kind, node.left), self.number(kind, node.right)
                return algebra.compute(node.sign, left, right)
            case _:
                assert_never(node)

    def _over(self, kind: EntityKind, node: Over) -> Values:
        metric_kind = owner(kind, node.scope)
        values, coverage = self._samples.over(metric_kind, node)
        if WINDOW_FUNCTIONS[node.function].needs_coverage:
            enough = coverage >= self._limits.min_coverage - _SLACK
            values = np.where(enough, values, np.float32(np.nan))
        return self._joined(kind, metric_kind, values)

    def _joined(self, kind: EntityKind, metric_kind: EntityKind, values: Values) -> Values:
        """Values of jobs or nodes for their GPUs; NaN for a GPU without."""
        if metric_kind == kind:
            return values
        membership, gpus = self._store.membership, self.columns("gpu")
        at = membership.jobs(gpus) if metric_kind == "job" else membership.nodes(gpus)
        return _spread(values, at)

    def _group(self, kind: EntityKind, node: Aggregate) -> Values:
        groups, limit = self._groups(kind, node.relation)
        grouped = GroupedValues(self._operand(node), groups, limit)
        function = group_function(node.function, of_condition=isinstance(node.operand, Boolean))
        values = grouped.reduce(function.compute, node.q, function.empty)
        share = grouped.share(groups)
        if node.relation is Relation.PEERS:
            values[grouped.counts < self._limits.min_peers] = np.nan
            values, share = _spread(values, groups), _spread(share, groups)
        self._shares[kind, node] = share
        return values

    def _groups(self, kind: EntityKind, relation: Relation) -> tuple[Columns, int]:
        """The group of every GPU, and a number above all groups."""
        members, gpus = self._store.membership, self.columns("gpu")
        if relation is Relation.PEERS:
            return members.peers(gpus), members.peer_limit
        owners = members.jobs(gpus) if kind == "job" else members.nodes(gpus)
        return owners, self.columns(kind)

    def _operand(self, node: Aggregate) -> Values:
        """What is grouped: numbers, or 1 and 0 for a condition that holds or not."""
        if isinstance(node.operand, Boolean):
            truths = self.truths("gpu", node.operand)
            return np.where(truths == MAYBE, np.nan, truths == YES).astype(np.float32)
        return self.values("gpu", node.operand)


def _spread(values: Values, at: Columns) -> Values:
    """The value at each index, NaN at -1."""
    spread: Values = np.append(values, np.float32(np.nan))[at]
    return spread


class NumpyEngine:
    """Judges conditions over a store. The store is not written during a round."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def round(self, conditions: Sequence[Condition], at_s: float) -> VerdictRound:
        """All questions at one instant: windows end there, and nothing later is seen."""
        with self._store.reading():
            judge = _Judge(self._store, conditions, at_s)
            judgements = [judge.judge(condition) for condition in conditions]
            return VerdictRound(at_s, judge.rosters, judgements)

    def explain(self, condition: Condition, at_s: float, entity_id: str) -> Sequence[ConditionPart]:
        """Every part of a condition at one entity, the whole first. Raises KeyError."""
        with self._store.reading():
            judge = _Judge(self._store, [condition], at_s)
            column = judge.rosters[condition.expression.each].column(entity_id)
            if column is None:
                raise KeyError(entity_id)
            return list(judge.evaluation(condition).explain(column))


class _Judge:
    """One round: evaluators by their limits over the same samples."""

    def __init__(self, store: Store, conditions: Sequence[Condition], at_s: float) -> None:
        windows = (window for one in conditions for window in one.expression.windows)
        self._store = store
        self._samples = RoundSamples(store, at_s, windows)
        self._evaluators: dict[DataLimits, NodeEvaluator] = {}
        self._nobody = {kind: ~store.slots(kind).live() for kind in KINDS}
        self.rosters = {kind: Roster(store.slots(kind).by_column()) for kind in KINDS}

    def evaluation(self, condition: Condition) -> EvaluatedCondition:
        """A condition in this round; those of equal limits share what they compute."""
        kind = condition.expression.each
        if condition.limits not in self._evaluators:
            evaluator = NodeEvaluator(self._store, self._samples, condition.limits)
            self._evaluators[condition.limits] = evaluator
        evaluator = self._evaluators[condition.limits]
        return EvaluatedCondition(
            condition,
            partial(evaluator.truths, kind),
            partial(evaluator.values, kind),
            partial(evaluator.coverage, kind),
        )

    def judge(self, condition: Condition) -> Judgement:
        judgement = self.evaluation(condition).judge()
        nobody = self._nobody[condition.expression.each]
        verdicts = np.where(nobody, np.int8(UNKNOWN), judgement.verdicts)
        return replace(judgement, verdicts=verdicts)
