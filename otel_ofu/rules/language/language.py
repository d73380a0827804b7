"""Conditions of rules: text -> a checked syntax tree.

Enters: the text, the kind of entity that it judges, the registry. Leaves: an `Expression`, or a
`LanguageError` with every mistake found: unknown names, wrong types, units that do not meet,
limits.
"""

from __future__ import annotations

from otel_ofu.catalog.registry import Registry
from otel_ofu.model import EntityKind
from otel_ofu.rules.language.checking import Checker
from otel_ofu.rules.language.parsing import LanguageError, Mistake, parse_tree
from otel_ofu.rules.language.syntax import Boolean, Expression, Node, Over, walk

MAX_WINDOWS = 50


def parse_condition(text: str, each: EntityKind, registry: Registry) -> Expression:
    """The condition of a rule on `each`; its root is `Boolean`. Raises LanguageError."""
    root = _parse(text, each, registry)
    if not isinstance(root, Boolean):
        message = "a condition holds or not: compare this with something, for example < 15%"
        raise LanguageError([Mistake(root.span.offset, root.span.length, message)])
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
        raise LanguageError([Mistake(0, 0, message)])
