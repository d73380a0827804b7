"""A syntax tree -> its text: canonical spelling, as few brackets as the grammar needs."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import assert_never

from otel_ofu.rules.language.syntax import (
    Aggregate,
    And,
    Arithmetic,
    Compare,
    FlagCondition,
    Latest,
    Negative,
    Node,
    Not,
    Number,
    Or,
    Over,
    Scalar,
    Scope,
    Sign,
)

_UNITS_MS = (
    ("w", 604_800_000),
    ("d", 86_400_000),
    ("h", 3_600_000),
    ("m", 60_000),
    ("s", 1_000),
    ("ms", 1),
)
_RANKS: Mapping[type, int] = {Or: 0, And: 1, Not: 2, Compare: 3, Arithmetic: 4, Negative: 6}
_PRODUCT = 5
_ATOM = 7


def to_text(node: Node) -> str:
    """The text of a tree; parsing it gives an equal tree."""
    match node:
        case Number() | Latest() | Over() | FlagCondition():
            return _leaf(node)
        case Scalar():
            return f"{node.function}({to_text(node.operand)})"
        case Aggregate():
            return _group(node)
        case _:
            return _operators(node)


def _leaf(node: Number | Latest | Over | FlagCondition) -> str:
    match node:
        case Number():
            return _number(node)
        case Latest():
            return _scoped(node.scope, node.metric)
        case Over():
            return _scoped(node.scope, _over(node))
        case FlagCondition():
            return f"flag({node.name})"
        case _:
            assert_never(node)


def duration_text(seconds: float) -> str:
    """`90s`, `10m`, `1500ms`: a duration in the largest unit that holds it as a whole number."""
    milliseconds = round(seconds * 1000)
    for name, size in _UNITS_MS:
        if milliseconds and milliseconds % size == 0:
            return f"{milliseconds // size}{name}"
    return "0s"


def _operators(node: Negative | Arithmetic | Compare | Not | And | Or) -> str:
    rank = _rank(node)
    match node:
        case Negative():
            return f"-{_inside(node.operand, rank)}"
        case Not():
            return f"not {_inside(node.operand, rank)}"
        case Arithmetic():
            return f"{_inside(node.left, rank)} {node.sign.value} {_inside(node.right, rank + 1)}"
        case Compare():
            left, right = _inside(node.left, rank + 1), _inside(node.right, rank + 1)
            return f"{left} {node.comparator.value} {right}"
        case And():
            return " and ".join(_inside(operand, rank + 1) for operand in node.operands)
        case Or():
            return " or ".join(_inside(operand, rank + 1) for operand in node.operands)
        case _:
            assert_never(node)


def _rank(node: Node) -> int:
    """How tightly a node binds, as the levels of the grammar."""
    if isinstance(node, Arithmetic) and node.sign in {Sign.MULTIPLY, Sign.DIVIDE}:
        return _PRODUCT
    return _RANKS.get(type(node), _ATOM)


def _inside(node: Node, rank: int) -> str:
    text = to_text(node)
    return text if _rank(node) >= rank else f"({text})"


def _scoped(scope: Scope, text: str) -> str:
    return f"{scope.value}.{text}" if scope is not Scope.OWN else text


def _over(node: Over) -> str:
    shift = f" offset {duration_text(node.offset_s)}" if node.offset_s else ""
    share = f"{_plain(node.q)}, " if node.q is not None else ""
    return f"{node.function}({share}{node.metric}, {duration_text(node.window_s)}{shift})"


def _group(node: Aggregate) -> str:
    share = f"{_plain(node.q)}, " if node.q is not None else ""
    return f"{node.relation.value}.{node.function}({share}{to_text(node.operand)})"


def _number(node: Number) -> str:
    if node.unit == "s":
        return duration_text(node.value)
    if node.unit == "1":
        return f"{(Decimal(repr(node.value)) * 100).normalize():f}%"
    return _plain(node.value)


def _plain(value: float) -> str:
    return repr(value).removesuffix(".0")
