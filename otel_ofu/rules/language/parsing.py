"""Text of a condition -> an untyped parse tree, or a `LanguageError`.

The parser itself never recurses; text, brackets and tree are bounded before anything else walks
the tree.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from lark import Lark, Token, Tree, UnexpectedCharacters, UnexpectedToken

from otel_ofu.model.errors import OtelOfuError

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
        grammar,
        parser="lalr",
        lexer="basic",
        propagate_positions=True,
        maybe_placeholders=False,
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
        level = [child for parent in level for child in _subtrees(parent)]
    if level:
        raise _too_deep(level[0].meta.start_pos)


def _subtrees(tree: ParseTree) -> Iterator[ParseTree]:
    return (child for child in tree.children if isinstance(child, Tree))


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
