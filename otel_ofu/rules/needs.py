"""What history a set of conditions needs: expressions -> the retention of the store."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from otel_ofu.rules.language.syntax import Expression, FlagCondition, Latest, Over, owner, placed
from otel_ofu.rules.numpy.samples import FINE_REACH_S, fresh_s, reach_s
from otel_ofu.store import Retention
from otel_ofu.store.retention import Key


def retention_for(
    expressions: Iterable[Expression], step_s: float, *, everything: bool = True
) -> Retention:
    """As deep as the longest window; `everything`: also metrics that no expression names."""
    depth_s = fresh_s(step_s) + step_s
    minutes: dict[Key, float] = {}
    names: set[Key] = set()
    for key, needed_s in _reaches(expressions):
        names.add(key)
        if needed_s <= FINE_REACH_S:
            depth_s = max(depth_s, needed_s)
        else:
            minutes[key] = max(needed_s, minutes.get(key, 0.0))
    return Retention(depth_s, minutes, None if everything else frozenset(names))


def _reaches(expressions: Iterable[Expression]) -> Iterator[tuple[Key, float]]:
    for expression in expressions:
        for node, kind in placed(expression.root, expression.each):
            if isinstance(node, Over):
                yield (owner(kind, node.scope), node.metric), reach_s(node)
            elif isinstance(node, Latest):
                yield (owner(kind, node.scope), node.metric), 0.0
            elif isinstance(node, FlagCondition):
                yield ("gpu", node.metric), 0.0
