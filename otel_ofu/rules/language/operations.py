"""Types and units of literals and operators: checked operands -> a checked node."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal, DecimalException

from otel_ofu.rules.language.parsing import ParseTree, shown
from otel_ofu.rules.language.syntax import (
    And,
    Arithmetic,
    Boolean,
    Comparator,
    Compare,
    Negative,
    Not,
    Number,
    Numeric,
    Or,
    Sign,
)
from otel_ofu.rules.language.typed import Typed, TypeMistake, duration_s, span_of, subtrees, token
from otel_ofu.rules.language.units import BARE, RATIO, SECOND, Unit, agree, describe, times


def literal(tree: ParseTree) -> Typed:
    """A number, a percentage or a duration."""
    text = token(tree)
    span = span_of(text)
    if tree.data == "duration":
        return Typed(Number(duration_s(text), "s", span), SECOND)
    percent = tree.data == "percent"
    try:
        value = float(Decimal(text.removesuffix("%")) / (100 if percent else 1))
    except DecimalException:
        value = math.inf
    if not math.isfinite(value):
        raise TypeMistake(tree, f"{shown(text)} is too large a number")
    return Typed(Number(value, "1" if percent else "", span), RATIO if percent else BARE)


def operation(tree: ParseTree, operands: Sequence[Typed]) -> Typed:
    """The node of an operator over its checked operands, in the order of the text."""
    match tree.data:
        case "or" | "and" | "not":
            return _logic(tree, operands)
        case "negative":
            return Typed(Negative(number(tree, 0, operands[0]), span_of(tree)), operands[0].unit)
        case "compare":
            return _compare(tree, operands)
        case _:
            return _arithmetic(tree, operands)


def number(tree: ParseTree, index: int, typed: Typed) -> Numeric:
    """The operand at `index` as a number. Raises TypeMistake for a condition."""
    if isinstance(typed.node, Boolean):
        part = subtrees(tree)[index]
        raise TypeMistake(part, "a condition stands where a number is needed")
    return typed.node


def _logic(tree: ParseTree, operands: Sequence[Typed]) -> Typed:
    parts = zip(subtrees(tree), operands, strict=True)
    conditions = tuple(_condition(part, typed, str(tree.data)) for part, typed in parts)
    span = span_of(tree)
    if tree.data == "not":
        return Typed(Not(conditions[0], span), RATIO)
    return Typed(And(conditions, span) if tree.data == "and" else Or(conditions, span), RATIO)


def _condition(part: ParseTree, typed: Typed, word: str) -> Boolean:
    if isinstance(typed.node, Boolean):
        return typed.node
    raise TypeMistake(
        part, f"`{word}` joins conditions: compare this with something, as in x < 15%"
    )


def _compare(tree: ParseTree, operands: Sequence[Typed]) -> Typed:
    left, right = (number(tree, i, typed) for i, typed in enumerate(operands))
    _same_unit(tree, operands, "compare")
    comparator = Comparator(token(tree, 1))
    return Typed(Compare(comparator, left, right, span_of(tree)), RATIO)


def _arithmetic(tree: ParseTree, operands: Sequence[Typed]) -> Typed:
    left, right = (number(tree, i, typed) for i, typed in enumerate(operands))
    sign = Sign(token(tree, 1))
    if sign in {Sign.ADD, Sign.SUBTRACT}:
        _same_unit(tree, operands, "add" if sign is Sign.ADD else "subtract")
    return Typed(Arithmetic(sign, left, right, span_of(tree)), _unit(sign, operands))


def _unit(sign: Sign, operands: Sequence[Typed]) -> Unit:
    left, right = (typed.unit for typed in operands)
    if sign in {Sign.MULTIPLY, Sign.DIVIDE}:
        return times(left, right, 1 if sign is Sign.MULTIPLY else -1)
    return right if left is None else left


def _same_unit(tree: ParseTree, operands: Sequence[Typed], verb: str) -> None:
    left, right = (typed.unit for typed in operands)
    if not agree(left, right):
        raise TypeMistake(tree, f"cannot {verb} {describe(left)} and {describe(right)}")
