"""Conditions of rules: text -> a checked syntax tree, with the types and units of its operators.

Enters: the text, the kind of entity that it judges, the registry. Leaves: an `Expression`, or a
`LanguageError` with every mistake found: unknown names, wrong types, units that do not meet,
limits.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal, DecimalException

from otel_ofu.catalog.registry import Registry
from otel_ofu.model import EntityKind
from otel_ofu.rules.language.calls import call, reference
from otel_ofu.rules.language.parsing import (
    ExpressionMistake,
    LanguageError,
    ParseTree,
    TypedNode,
    TypeMistake,
    duration_s,
    number,
    parse_tree,
    shown,
    span_of,
    subtrees,
    token,
)
from otel_ofu.rules.language.syntax import (
    And,
    Arithmetic,
    Boolean,
    Comparator,
    Compare,
    Expression,
    Negative,
    Node,
    Not,
    Number,
    Or,
    Over,
    Sign,
    walk,
)
from otel_ofu.rules.language.units import BARE, RATIO, SECOND, Unit, agree, describe, times


class Checker:
    """One pass over one parse tree; `mistakes` holds what was refused."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self.mistakes: list[ExpressionMistake] = []

    def check(self, tree: ParseTree, each: EntityKind) -> TypedNode | None:
        """The typed tree in a condition on `each`, or None after a mistake in it."""
        try:
            return self._node(tree, each)
        except TypeMistake as mistake:
            span = mistake.span
            self.mistakes.append(ExpressionMistake(span.offset, span.length, mistake.message))
            return None

    def _node(self, tree: ParseTree, each: EntityKind) -> TypedNode | None:
        match tree.data:
            case "start":
                return self.check(subtrees(tree)[0], each)
            case "number" | "percent" | "duration":
                return literal(tree)
            case "reference":
                return reference(tree, each, self._registry)
            case "call":
                return call(tree, each, self._registry, self.check)
            case "shifted":
                raise TypeMistake(tree, "`offset` stands after the window of a function only")
            case _:
                return self._operation(tree, each)

    def _operation(self, tree: ParseTree, each: EntityKind) -> TypedNode | None:
        parts = subtrees(tree)
        operands = [typed for part in parts if (typed := self.check(part, each))]
        return operation(tree, operands) if len(operands) == len(parts) else None


# Starting value: no shipped condition has more than 4; it bounds the work of one rule.
MAX_WINDOWS = 50


def parse_condition(text: str, each: EntityKind, registry: Registry) -> Expression:
    """The condition of a rule on `each`; its root is `Boolean`. Raises LanguageError."""
    root = _parse(text, each, registry)
    if not isinstance(root, Boolean):
        message = "a condition holds or not: compare this with something, for example < 15%"
        raise LanguageError([ExpressionMistake(root.span.offset, root.span.length, message)])
    return Expression(text, each, root)


def _parse(text: str, each: EntityKind, registry: Registry) -> Node:
    tree = parse_tree(text)
    checker = Checker(registry)
    typed = checker.check(tree, each)
    if typed is None:
        raise LanguageError(checker.mistakes)
    _check_windows(typed.node)
    return typed.node


def _check_windows(root: Node) -> None:
    windows = {node for node in walk(root) if isinstance(node, Over)}
    if len(windows) > MAX_WINDOWS:
        message = f"{len(windows)} different windows; at most {MAX_WINDOWS} are allowed"
        raise LanguageError([ExpressionMistake(0, 0, message)])


def literal(tree: ParseTree) -> TypedNode:
    """A number, a percentage or a duration."""
    text = token(tree)
    span = span_of(text)
    if tree.data == "duration":
        return TypedNode(Number(duration_s(text), "s", span), SECOND)
    percent = tree.data == "percent"
    try:
        value = float(Decimal(text.removesuffix("%")) / (100 if percent else 1))
    except DecimalException:
        value = math.inf
    if not math.isfinite(value):
        raise TypeMistake(tree, f"{shown(text)} is too large a number")
    return TypedNode(Number(value, "1" if percent else "", span), RATIO if percent else BARE)


def operation(tree: ParseTree, operands: Sequence[TypedNode]) -> TypedNode:
    """The node of an operator over its checked operands, in the order of the text."""
    match tree.data:
        case "or" | "and" | "not":
            return _logic(tree, operands)
        case "negative":
            return TypedNode(
                Negative(number(tree, 0, operands[0]), span_of(tree)), operands[0].unit
            )
        case "compare":
            return _compare(tree, operands)
        case _:
            return _arithmetic(tree, operands)


def _logic(tree: ParseTree, operands: Sequence[TypedNode]) -> TypedNode:
    parts = zip(subtrees(tree), operands, strict=True)
    conditions = tuple(_condition(part, typed, str(tree.data)) for part, typed in parts)
    span = span_of(tree)
    if tree.data == "not":
        return TypedNode(Not(conditions[0], span), RATIO)
    return TypedNode(And(conditions, span) if tree.data == "and" else Or(conditions, span), RATIO)


def _condition(part: ParseTree, typed: TypedNode, word: str) -> Boolean:
    if isinstance(typed.node, Boolean):
        return typed.node
    raise TypeMistake(
        part, f"`{word}` joins conditions: compare this with something, as in x < 15%"
    )


def _compare(tree: ParseTree, operands: Sequence[TypedNode]) -> TypedNode:
    left, right = (number(tree, i, typed) for i, typed in enumerate(operands))
    _same_unit(tree, operands, "compare")
    comparator = Comparator(token(tree, 1))
    return TypedNode(Compare(comparator, left, right, span_of(tree)), RATIO)


def _arithmetic(tree: ParseTree, operands: Sequence[TypedNode]) -> TypedNode:
    left, right = (number(tree, i, typed) for i, typed in enumerate(operands))
    sign = Sign(token(tree, 1))
    if sign in {Sign.ADD, Sign.SUBTRACT}:
        _same_unit(tree, operands, "add" if sign is Sign.ADD else "subtract")
    return TypedNode(Arithmetic(sign, left, right, span_of(tree)), _unit(sign, operands))


def _unit(sign: Sign, operands: Sequence[TypedNode]) -> Unit:
    left, right = (typed.unit for typed in operands)
    if sign in {Sign.MULTIPLY, Sign.DIVIDE}:
        return times(left, right, 1 if sign is Sign.MULTIPLY else -1)
    return right if left is None else left


def _same_unit(tree: ParseTree, operands: Sequence[TypedNode], verb: str) -> None:
    left, right = (typed.unit for typed in operands)
    if not agree(left, right):
        raise TypeMistake(tree, f"cannot {verb} {describe(left)} and {describe(right)}")
