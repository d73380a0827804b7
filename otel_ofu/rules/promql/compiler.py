"""Syntax trees -> PromQL with the same verdicts.

PromQL knows only samples that are there, a rule knows three answers. So a condition becomes two
vectors: the entities for which it holds, and those for which it fails; an entity in neither is
unknown. `and`, `or` and `not` then are set operations, right for three values, and read as a
person would write them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import assert_never

from otel_ofu.catalog.registry import Registry
from otel_ofu.model import EntityKind
from otel_ofu.rules.algebra import COMPARE
from otel_ofu.rules.functions import SCALAR_FUNCTIONS, GroupFunction, group_function
from otel_ofu.rules.language.syntax import (
    INVERSE,
    Aggregate,
    And,
    Arithmetic,
    Boolean,
    Comparator,
    Compare,
    Expression,
    FlagCondition,
    Latest,
    Negative,
    Not,
    Number,
    Numeric,
    Or,
    Over,
    Relation,
    Scalar,
)
from otel_ofu.rules.promql.samples import MetricVectors, NotInPromqlError
from otel_ofu.rules.promql.vectors import (
    ENTITY_LABELS,
    PEER_LABELS,
    CompilerSettings,
    Labels,
    Value,
    Vector,
    aggregate,
    any_of,
    arithmetic,
    both,
    by,
    infix,
    intersection,
    joinable,
    negative,
    number,
    scalar,
    union,
)

# Starting value: what servers and proxies take in one form; the longest shipped rule has 3,400.
MAX_CHARACTERS = 100_000
# A vector without samples.
NOTHING = "vector(0) > 0"


def checked_text(value: Value) -> str:
    """The text of a vector, that of an empty one for a constant. NotInPromqlError."""
    text = value.text if isinstance(value, Vector) else NOTHING
    if len(text) > MAX_CHARACTERS:
        raise NotInPromqlError(
            f"{len(text):,} characters of PromQL; at most {MAX_CHARACTERS:,} are sent"
        )
    return text


@dataclass(frozen=True, slots=True)
class Compiler:
    """Nodes of the tree -> vectors, for the entities of one kind."""

    samples: MetricVectors

    @property
    def _labels(self) -> Labels:
        return ENTITY_LABELS[self.samples.each]

    # ---- numbers ----

    def value(self, node: Numeric) -> Value:
        """A vector with the labels of the entities or of what they are in, or a constant."""
        match node:
            case Number():
                return node.value
            case Latest():
                return self.samples.latest(node)
            case Over():
                return self.samples.over(node)
            case Aggregate():
                return self._group(node)
            case _:
                return self._computed(node)

    def _computed(self, node: Scalar | Negative | Arithmetic) -> Value:
        match node:
            case Scalar():
                return scalar(SCALAR_FUNCTIONS[node.function], self.value(node.operand))
            case Negative():
                return negative(self.value(node.operand))
            case Arithmetic():
                left, right = self._meeting(node.left, node.right)
                return arithmetic(node.sign, left, right)
            case _:
                assert_never(node)

    def for_all(self, value: Value) -> Value:
        """A value with the labels of the entities themselves; constants stay what they are."""
        return self.everywhere(value) if isinstance(value, Vector) else value

    def everywhere(self, value: Vector | float) -> Vector:
        """A vector with the labels of the entities themselves."""
        if not isinstance(value, Vector):
            return infix("+", infix("*", self.samples.present(), 0.0), value)
        if value.labels == self._labels:
            return value
        return infix("*", value, self.samples.present())

    def _meeting(self, *nodes: Numeric) -> tuple[Value, Value]:
        """Two operands whose labels fit together."""
        left, right = (self.value(node) for node in nodes)
        if isinstance(left, Vector) and isinstance(right, Vector) and not joinable(left, right):
            return self.everywhere(left), right
        return left, right

    # ---- conditions ----

    def holds(self, node: Boolean) -> Vector | None:
        """The entities for which a condition is known to hold; None for no entity ever."""
        return self._known(node, wanted=True)

    def fails(self, node: Boolean) -> Vector | None:
        """The entities for which a condition is known not to hold; None for no entity ever."""
        return self._known(node, wanted=False)

    def _known(self, node: Boolean, *, wanted: bool) -> Vector | None:
        match node:
            case Compare():
                comparator = node.comparator if wanted else INVERSE[node.comparator]
                return self._compared(node, comparator)
            case FlagCondition():
                sign = "!=" if wanted else "=="
                return infix(sign, self.samples.latest(Latest(node.metric)), 0.0)
            case Not():
                return self._known(node.operand, wanted=not wanted)
            case And() | Or():
                join = intersection if isinstance(node, And) is wanted else union
                return join(self._known(operand, wanted=wanted) for operand in node.operands)
            case _:
                assert_never(node)

    def verdict(self, node: Boolean) -> Vector | None:
        """1 where a condition holds, 0 where it fails; None for no entity ever."""
        match node:
            case Compare():
                return self._compared(node, node.comparator, answer=True)
            case FlagCondition():
                return infix("!= bool", self.samples.latest(Latest(node.metric)), 0.0)
            case Not():
                inner = self.verdict(node.operand)
                return infix("-", 1.0, inner) if inner else None
            case And() | Or():
                return self._either_way(node)
            case _:
                assert_never(node)

    def _either_way(self, node: Boolean) -> Vector | None:
        holds, fails = self.holds(node), self.fails(node)
        answers = [aggregate("group", self._labels, holds.text)] if holds else []
        if fails:
            answers.append(infix("*", aggregate("group", self._labels, fails.text), 0.0))
        return any_of(answers) if answers else None

    def _compared(
        self, node: Compare, comparator: Comparator, *, answer: bool = False
    ) -> Vector | None:
        """The entities for which a comparison holds; with `answer` 1 or 0 for all known ones."""
        left, right = self._meeting(node.left, node.right)
        if left is None or right is None:
            return None
        if not isinstance(left, Vector) and not isinstance(right, Vector):
            return self._always(bool(COMPARE[comparator](left, right)), answer=answer)
        operator = comparator.value + (" bool" if answer else "")
        compared = infix(operator, left, right)
        return compared if compared.labels == self._labels else self.everywhere(compared)

    def _always(self, outcome: bool, *, answer: bool) -> Vector | None:  # noqa: FBT001 - a result
        if answer:
            return self.everywhere(float(outcome))
        return self.samples.present() if outcome else None

    # ---- groups ----

    def coverage(self, node: Over | Aggregate) -> Vector:
        """How much there is of what a value rests on: samples of a window, GPUs of a group."""
        if isinstance(node, Over):
            return self.samples.coverage(node)
        inner, labels = self._members(node)
        operand = self._operand(node, inner)
        members = aggregate("count", labels, inner.samples.present().text)
        known = [aggregate("count", labels, operand.text)] if operand else []
        return infix("/", any_of([*known, infix("*", members, 0.0)]), members)

    def _group(self, node: Aggregate) -> Value:
        inner, labels = self._members(node)
        operand = self._operand(node, inner)
        known = [self._grouped(node, operand, labels)] if operand else []
        function = _function(node)
        if function.empty is not None and node.relation is Relation.GPUS:
            nothing = infix("*", self.samples.present(), 0.0)
            known.append(infix("+", nothing, function.empty) if function.empty else nothing)
        return any_of(known) if known else None

    def _members(self, node: Aggregate) -> tuple[Compiler, Labels]:
        """How the GPUs of a group are written, and the labels that they share."""
        labels = PEER_LABELS if node.relation is Relation.PEERS else self._labels
        required = labels[:1]  # a GPU without a job has no peers
        return Compiler(replace(self.samples, each="gpu", required=required)), labels

    def _operand(self, node: Aggregate, inner: Compiler) -> Vector | None:
        """What is grouped: numbers, or 1 and 0 for a condition that holds or not."""
        if isinstance(node.operand, Boolean):
            return inner.verdict(node.operand)
        value = inner.value(node.operand)
        return None if value is None else inner.everywhere(value)

    def _grouped(self, node: Aggregate, operand: Vector, labels: Labels) -> Vector:
        function = _function(node)
        fields = {
            "x": operand.text,
            "operand": operand.inside,
            "by": by(labels),
            "on": f"on ({', '.join(labels)}) group_left ()",
            "q": number(node.q or 0.0),
        }
        result = Vector(function.promql.format_map(fields), labels)
        least = self.samples.settings.limits.min_peers
        if node.relation is not Relation.PEERS or least <= 1:
            return result
        enough = infix(">=", aggregate("count", labels, operand.text), float(least))
        return both([result, enough])


def _function(node: Aggregate) -> GroupFunction:
    """What is computed of the group."""
    return group_function(node.function, of_condition=isinstance(node.operand, Boolean))


def alert_query(expression: Expression, registry: Registry, settings: CompilerSettings) -> str:
    """The entities for which a condition holds, with the left side of its first comparison.

    NotInPromqlError.
    """
    if not isinstance(expression.root, Boolean):
        raise TypeError(f"{expression.text}: a number, not a condition")
    compiler = Compiler(MetricVectors(registry, settings, expression.each))
    return checked_text(compiler.holds(expression.root))


def silence_query(
    after_s: float, each: EntityKind, registry: Registry, settings: CompilerSettings
) -> str:
    """The entities that there are and that were not seen for `after_s`."""
    return checked_text(MetricVectors(registry, settings, each).silent(after_s))
