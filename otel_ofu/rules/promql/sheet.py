"""One question in one round: numbers that a server gave -> verdicts with their evidence."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import assert_never

import numpy as np

from otel_ofu.model import EntityKind
from otel_ofu.rules import algebra
from otel_ofu.rules.algebra import MAYBE, NO, YES, Truths, Values
from otel_ofu.rules.language.printing import to_text
from otel_ofu.rules.language.syntax import (
    And,
    Boolean,
    Comparator,
    Compare,
    Flag,
    Group,
    Latest,
    Not,
    Numeric,
    Or,
    Over,
    comparisons,
    walk,
)
from otel_ofu.rules.numpy.engine import visible
from otel_ofu.rules.promql.asked import Asked
from otel_ofu.rules.promql.compiler import Compiler
from otel_ofu.rules.promql.vectors import Value
from otel_ofu.rules.verdicts import (
    CLEAR,
    HOLDS,
    UNKNOWN,
    Evidence,
    Explained,
    Judgement,
    Question,
    Verdicts,
)

_VERDICTS = np.zeros(3, np.int8)
_VERDICTS[[NO, MAYBE, YES]] = CLEAR, UNKNOWN, HOLDS


@dataclass(frozen=True, slots=True)
class Sheet:
    """`ask` everything before judging anything, so that all entities have their columns."""

    question: Question
    compiler: Compiler
    asked: Asked

    @property
    def kind(self) -> EntityKind:
        return self.question.expression.each

    def ask(self) -> None:
        """Both sides of each comparison. Raises QueryError, NotInPromql."""
        for leaf in comparisons(self.question.expression.root):
            for side in sides(leaf):
                self.asked.ask(self.kind, self.compiler.for_all(self.compiler.value(side)))

    def judge(self) -> Judgement:
        """The verdicts; coverage is asked for where somebody will be told of it."""
        root = self.question.expression.root
        if not isinstance(root, Boolean):
            raise TypeError(f"no condition: {self.question.expression.text}")
        verdicts = _verdicts(self._truths(root))
        told = bool((verdicts == HOLDS).any())
        evidence = [self._evidence(leaf, told=told) for leaf in comparisons(root)]
        return Judgement(self.question, verdicts, evidence)

    def explain(self, column: int) -> Iterator[Explained]:
        """Every part at one entity, the whole first."""
        for node, depth in visible(self.question.expression.root):
            if isinstance(node, Boolean):
                verdict = int(_verdicts(self._truths(node))[column])
                yield Explained(to_text(node), depth, verdict=verdict)
            else:
                yield Explained(to_text(node), depth, value=float(self._values(node)[column]))

    def _values(self, node: Numeric) -> Values:
        return self._spread(self.compiler.value(node))

    def _spread(self, value: Value) -> Values:
        return self.asked.values(self.kind, self.compiler.for_all(value))

    def _truths(self, node: Boolean) -> Truths:
        match node:
            case Compare():
                left, right = self._values(node.left), self._values(node.right)
                return algebra.compare(node.comparator, left, right, len(left))
            case Flag():
                return _raised(self._values(Latest(node.metric)))
            case Not():
                return algebra.negate(self._truths(node.operand))
            case And():
                return algebra.all_of([self._truths(part) for part in node.operands])
            case Or():
                return algebra.any_of([self._truths(part) for part in node.operands])
            case _:
                assert_never(node)

    def _evidence(self, leaf: Compare | Flag, *, told: bool) -> Evidence:
        verdicts = _verdicts(self._truths(leaf))
        if isinstance(leaf, Flag):
            values = np.where(verdicts == UNKNOWN, np.nan, verdicts).astype(np.float32)
            return Evidence(leaf, verdicts, values, np.zeros_like(values), 0.0, ())
        return Evidence(
            leaf,
            verdicts,
            self._values(leaf.left),
            self._values(leaf.right),
            max((node.window_s for node in walk(leaf) if isinstance(node, Over)), default=0.0),
            self._coverages(leaf) if told else (),
        )

    def _coverages(self, leaf: Compare) -> tuple[Values, ...]:
        parts = [node for node, _ in visible(leaf) if isinstance(node, Over | Group)]
        return tuple(self._spread(self.compiler.coverage(node)) for node in parts)


def sides(leaf: Compare | Flag) -> tuple[Numeric, ...]:
    """The numbers that a comparison is about."""
    return (leaf.left, leaf.right) if isinstance(leaf, Compare) else (Latest(leaf.metric),)


def _raised(values: Values) -> Truths:
    return algebra.compare(Comparator.NOT_EQUAL, values, 0.0, len(values))


def _verdicts(truths: Truths) -> Verdicts:
    verdicts: Verdicts = _VERDICTS[truths]
    return verdicts
