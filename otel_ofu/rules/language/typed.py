"""What the checks of a condition hand to each other: a node with its unit, or a refusal."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from lark import Token, Tree

from otel_ofu.model import EntityKind
from otel_ofu.rules.language.parsing import ParseTree, shown
from otel_ofu.rules.language.syntax import Node, Span
from otel_ofu.rules.language.units import Unit


@dataclass(frozen=True, slots=True)
class Typed:
    """A checked node and its unit; the unit of a `Boolean` means nothing."""

    node: Node
    unit: Unit


Check = Callable[[ParseTree, EntityKind], Typed | None]


class TypeMistake(Exception):  # noqa: N818 - a mistake of the rule's author
    """An invalid part of a condition: its position and the reason."""

    def __init__(self, part: ParseTree | Token, message: str) -> None:
        super().__init__(message)
        self.span = span_of(part)
        self.message = message


def span_of(part: ParseTree | Token) -> Span:
    if isinstance(part, Token):
        return Span(part.start_pos or 0, len(part))
    return Span(part.meta.start_pos, part.meta.end_pos - part.meta.start_pos)


def token(tree: ParseTree, index: int = 0) -> Token:
    child = tree.children[index]
    if not isinstance(child, Token):
        raise TypeError(f"the grammar gives no token at {index} of {tree.data}")
    return child


def subtrees(tree: ParseTree) -> list[ParseTree]:
    return [child for child in tree.children if isinstance(child, Tree)]


# Starting value: ten years; a longer literal is a slip.
MAX_DAYS = 3_650

_PART = re.compile(r"(\d+)(ms|[smhdw])")
_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}


def duration_s(text: Token) -> float:
    """`1h30m` in seconds. Raises TypeMistake."""
    length_ms = milliseconds(text)
    if length_ms > _MS["d"] * MAX_DAYS:
        raise TypeMistake(text, f"{shown(text)} is longer than {MAX_DAYS} days, the most allowed")
    return length_ms / 1000


def milliseconds(text: str) -> int:
    """The sum of the parts of a duration, whose shape was checked before."""
    return sum(int(count) * _MS[unit] for count, unit in _PART.findall(text))


def quantile_share(part: ParseTree) -> float:
    """The first argument of a quantile, in [0, 1]. Raises TypeMistake."""
    if part.data in {"number", "percent"}:
        text = token(part)
        value = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
        if 0 <= value <= 1:
            return value
    raise TypeMistake(part, "a quantile is a number from 0 to 1, such as 0.95")
