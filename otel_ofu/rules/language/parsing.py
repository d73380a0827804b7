"""Text of a condition -> an untyped parse tree, or a `LanguageError`; its parts, for the checks.

The parser itself never recurses; text, brackets and tree are bounded before anything else walks
the tree.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from lark import Lark, Token, Tree, UnexpectedCharacters, UnexpectedToken

from otel_ofu.model import EntityKind
from otel_ofu.model.errors import OtelOfuError
from otel_ofu.rules.language.syntax import Boolean, Node, Numeric, Span
from otel_ofu.rules.language.units import Unit

# Starting values: a page of text, deeper than conditions nest, and a line of a terminal.
MAX_CHARACTERS = 4_000
MAX_DEPTH = 40
MAX_SHOWN = 60

ParseTree = Tree[Token]

_WORDS = {
    "=": "write == to compare",
    "&": "write `and`",
    "|": "write `or`",
    "!": "write `not`",
    "[": "write a window as avg(metric, 10m)",
    "{": "there are no label selectors: write a labelled metric as name:label",
    "%": "write a percentage as 15%, without a space",
    "^": "there is no power operator",
}


@dataclass(frozen=True, slots=True)
class ExpressionMistake:
    """One mistake in the text of a condition: characters from 0, and what is wrong."""

    offset: int
    length: int
    message: str


class LanguageError(OtelOfuError):
    """All the mistakes of one condition, in the order of the text."""

    def __init__(self, mistakes: Sequence[ExpressionMistake]) -> None:
        self.mistakes = tuple(sorted(mistakes, key=lambda m: m.offset))
        super().__init__("; ".join(f"at {m.offset + 1}: {m.message}" for m in self.mistakes))


def parse_tree(text: str) -> ParseTree:
    """The parse tree of a condition, at most MAX_DEPTH deep. Raises LanguageError."""
    if len(text) > MAX_CHARACTERS:
        message = f"{len(text):,} characters long; at most {MAX_CHARACTERS:,} are allowed"
        raise LanguageError([ExpressionMistake(0, 0, message)])
    _check_brackets(text)
    try:
        tree = _parser().parse(text)
    except UnexpectedCharacters as error:
        offset: int = error.pos_in_stream  # type: ignore[assignment] # None only in its base class
        raise LanguageError([_strange_character(text, offset)]) from error
    except UnexpectedToken as error:
        raise LanguageError([_strange_token(text, error)]) from error
    _check_depth(tree)
    return tree


@cache
def _parser() -> Lark:
    grammar = files("otel_ofu.rules.language").joinpath("grammar.lark").read_text("utf-8")
    return Lark(
        grammar, parser="lalr", lexer="basic", propagate_positions=True, maybe_placeholders=False
    )


def _too_deep(offset: int) -> LanguageError:
    return LanguageError(
        [ExpressionMistake(offset, 1, f"nested deeper than {MAX_DEPTH}, the most allowed")]
    )


def _check_brackets(text: str) -> None:
    depth = 0
    for offset, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if depth > MAX_DEPTH:
            raise _too_deep(offset)


def _check_depth(tree: ParseTree) -> None:
    level = [tree]
    for _ in range(MAX_DEPTH + 1):
        level = [child for parent in level for child in subtrees(parent)]
    if level:
        raise _too_deep(level[0].meta.start_pos)


def shown(text: str) -> str:
    """A part of the text in a message, cut when it is long."""
    return str(text) if len(text) <= MAX_SHOWN else f"{text[: MAX_SHOWN - 1]}…"


def _strange_character(text: str, offset: int) -> ExpressionMistake:
    character = text[offset]
    if character.isascii() and (character.isdigit() or character == "."):
        word = _word(text, offset)
        message = f"{shown(word)!r} is neither a number nor a duration such as 30s, 5m or 2h"
        return ExpressionMistake(offset, len(word), message)
    hint = f": {_WORDS[character]}" if character in _WORDS else ""
    return ExpressionMistake(offset, 1, f"unexpected {character!r}{hint}")


def _word(text: str, offset: int) -> str:
    end = offset
    while end < len(text) and (text[end].isalnum() or text[end] in "._%"):
        end += 1
    return text[offset : end or offset + 1]


def _strange_token(text: str, error: UnexpectedToken) -> ExpressionMistake:
    token: Token = error.token
    accepted = error.accepts or set()
    expected = _expected(token, accepted)
    if token.type == "$END":
        return ExpressionMistake(
            len(text.rstrip()), 0, f"the expression ends too early: expected {expected}"
        )
    found = f"unexpected {shown(token)!r}"
    if token.type == "COMPARATOR" and "AND" in accepted:
        return _at(token, "comparisons do not chain: write a < b and b < c")
    if token.type == "RPAR" and "$END" in accepted:
        return _at(token, "unexpected ')': there is no '(' before it")
    return _at(token, f"{found}: expected {expected}")


def _at(token: Token, message: str) -> ExpressionMistake:
    return ExpressionMistake(token.start_pos or 0, len(token), message)


def _expected(token: Token, accepted: set[str]) -> str:
    if "NAME" in accepted:
        return "a metric, a number, a percentage or a function"
    if accepted == {"DURATION"}:
        return "a duration such as 5m"
    if token.type in {"NUMBER", "PERCENT", "DURATION", "NAME", "LPAR", "NOT"}:
        return "an operator such as <, and, + before it"
    if "$END" in accepted:
        return "an operator such as <, and, + or the end"
    return "')'" if "COMMA" not in accepted else "',' or ')'"


@dataclass(frozen=True, slots=True)
class TypedNode:
    """A checked node and its unit; the unit of a `Boolean` means nothing."""

    node: Node
    unit: Unit


Check = Callable[[ParseTree, EntityKind], TypedNode | None]


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


def number(tree: ParseTree, index: int, typed: TypedNode) -> Numeric:
    """The operand at `index` as a number. Raises TypeMistake for a condition."""
    if isinstance(typed.node, Boolean):
        part = subtrees(tree)[index]
        raise TypeMistake(part, "a condition stands where a number is needed")
    return typed.node


# Starting value: ten years; a longer literal is a slip.
MAX_DAYS = 3_650

_PART = re.compile(r"(\d+)(ms|[smhdw])")
_MS = {"w": 604_800_000, "d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1_000, "ms": 1}


def duration_s(text: Token) -> float:
    """`1h30m` in seconds. Raises TypeMistake."""
    length_ms = milliseconds(text)
    if not in_order(text):
        raise TypeMistake(text, f"{shown(text)}: {OUT_OF_ORDER}")
    if length_ms > _MS["d"] * MAX_DAYS:
        raise TypeMistake(text, f"{shown(text)} is longer than {MAX_DAYS} days, the most allowed")
    return length_ms / 1000


# As in Prometheus: 1m1h is more often a slip than 61 minutes.
OUT_OF_ORDER = "units of a duration go from the largest to the smallest, each once, as in 1h30m"


def in_order(text: str) -> bool:
    """Whether the units of a duration go from the largest to the smallest, each once."""
    ranks = [list(_MS).index(unit) for _, unit in _PART.findall(text)]
    return ranks == sorted(set(ranks))


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
