"""An untyped parse tree -> a typed syntax tree, with all that is wrong in it."""

from __future__ import annotations

from otel_ofu.catalog.registry import Registry
from otel_ofu.model import EntityKind
from otel_ofu.rules.language.calls import call, reference
from otel_ofu.rules.language.operations import literal, operation
from otel_ofu.rules.language.parsing import Mistake, ParseTree
from otel_ofu.rules.language.typed import Refusal, Typed, subtrees


class Checker:
    """One pass over one parse tree; `mistakes` holds what was refused."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self.mistakes: list[Mistake] = []

    def check(self, tree: ParseTree, each: EntityKind) -> Typed | None:
        """The typed tree in a condition on `each`, or None after a mistake in it."""
        try:
            return self._node(tree, each)
        except Refusal as refusal:
            span = refusal.span
            self.mistakes.append(Mistake(span.offset, span.length, refusal.message))
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
                raise Refusal(tree, "`offset` stands after the window of a function only")
            case _:
                return self._operation(tree, each)

    def _operation(self, tree: ParseTree, each: EntityKind) -> Typed | None:
        parts = subtrees(tree)
        operands = [typed for part in parts if (typed := self.check(part, each))]
        return operation(tree, operands) if len(operands) == len(parts) else None
