"""Conditions of rules: text -> a checked syntax tree.

Enters: the text, the kind of entity that it judges, the registry. Leaves: an `Expression`, or a
`LanguageError` with every mistake found: unknown names, wrong types, units that do not meet,
limits.
"""

from __future__ import annotations

from otel_ofu.catalog.registry import Registry
from otel_ofu.model import EntityKind
from otel_ofu.rules.language.calls import call, reference
from otel_ofu.rules.language.operations import literal, operation
from otel_ofu.rules.language.parsing import ExpressionMistake, LanguageError, ParseTree, parse_tree
from otel_ofu.rules.language.syntax import Boolean, Expression, Node, Over, walk
from otel_ofu.rules.language.typed import Typed, TypeMistake, subtrees


class Checker:
    """One pass over one parse tree; `mistakes` holds what was refused."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self.mistakes: list[ExpressionMistake] = []

    def check(self, tree: ParseTree, each: EntityKind) -> Typed | None:
        """The typed tree in a condition on `each`, or None after a mistake in it."""
        try:
            return self._node(tree, each)
        except TypeMistake as mistake:
            span = mistake.span
            self.mistakes.append(ExpressionMistake(span.offset, span.length, mistake.message))
            return None

    def _node(self, tree: ParseTree, each: EntityKind) -> Typed | None:
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

    def _operation(self, tree: ParseTree, each: EntityKind) -> Typed | None:
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


def parse_value(text: str, each: EntityKind, registry: Registry) -> Expression:
    """Any expression on `each`, number or condition. Raises LanguageError."""
    return Expression(text, each, _parse(text, each, registry))


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
