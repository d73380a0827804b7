"""What comparisons of one number with constants have in common: `x < 5% and x > 10%` is nothing."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from otel_ofu.rules.functions.bounds import Interval
from otel_ofu.rules.language.printing import to_text
from otel_ofu.rules.language.ranges import Ranges, is_constant, steady_metric
from otel_ofu.rules.language.syntax import (
    INVERSE,
    TURNED,
    And,
    Boolean,
    Comparator,
    Compare,
    Expression,
    FlagCondition,
    Latest,
    Node,
    Numeric,
    Or,
    Over,
    walk,
)


@dataclass(frozen=True, slots=True)
class Values:
    """The values between two ends, each in it or not."""

    low: float = -math.inf
    high: float = math.inf
    with_low: bool = True
    with_high: bool = True

    @property
    def is_empty(self) -> bool:
        both = self.with_low and self.with_high
        return self.low > self.high or (self.low == self.high and not both)

    def __and__(self, other: Values) -> Values:
        low, high = max(self.low, other.low), min(self.high, other.high)
        return Values(
            low,
            high,
            self._has_low(low) and other._has_low(low),
            self._has_high(high) and other._has_high(high),
        )

    def _has_low(self, low: float) -> bool:
        return self.with_low or self.low < low

    def _has_high(self, high: float) -> bool:
        return self.with_high or self.high > high

    def __str__(self) -> str:
        if math.isinf(self.high):
            return f"{self.low:g} or more"
        return f"up to {self.high:g}" if math.isinf(self.low) else f"{self.low:g} to {self.high:g}"


@dataclass(frozen=True, slots=True)
class LimitedValues:
    """A number that is no constant, and the values with which its comparison holds."""

    node: Numeric
    values: Values


def limited(node: Node, ranges: Ranges, *, holds: bool = True) -> LimitedValues | None:
    """Of a comparison with a constant: the values with which it holds, or with which it fails."""
    if not isinstance(node, Compare):
        return None
    side, constant, comparator = node.left, node.right, node.comparator
    if is_constant(side):
        side, constant, comparator = constant, side, TURNED[comparator]
    at = ranges.of(constant)
    if is_constant(side) or not is_constant(constant) or not at.is_point:
        return None
    values = _values(comparator if holds else INVERSE[comparator], at.low)
    return LimitedValues(side, values) if values else None


def _values(comparator: Comparator, at: float) -> Values | None:
    match comparator:
        case Comparator.LESS:
            return Values(high=at, with_high=False)
        case Comparator.LESS_EQUAL:
            return Values(high=at)
        case Comparator.GREATER:
            return Values(low=at, with_low=False)
        case Comparator.GREATER_EQUAL:
            return Values(low=at)
        case Comparator.EQUAL:
            return Values(at, at)
        case Comparator.NOT_EQUAL:
            return None


def contradiction(node: object, ranges: Ranges) -> str:
    """That the parts of an `and` never all hold, or that one of an `or` always does; or nothing."""
    if not isinstance(node, And | Or):
        return ""
    is_and = isinstance(node, And)
    for number, values in _together(node.operands, ranges, holds=is_and):
        if values.is_empty and is_and:
            return f"never holds: its comparisons of {to_text(number)} exclude each other"
        if values.is_empty:
            return f"always holds: its comparisons of {to_text(number)} leave nothing out"
    return ""


def _together(
    parts: Iterable[Boolean], ranges: Ranges, *, holds: bool
) -> Iterator[tuple[Numeric, Values]]:
    """Each number that two of the parts or more limit, and what they leave of its values."""
    left: dict[Numeric, list[Values]] = {}
    for part in parts:
        found = limited(part, ranges, holds=holds)
        if found:
            left.setdefault(found.node, []).append(found.values)
    for number, all_ in left.items():
        if len(all_) > 1:
            yield number, _all_of(all_)


def _all_of(values: Iterable[Values]) -> Values:
    common = Values()
    for one in values:
        common = common & one
    return common


def never_clears(expr: Expression, clear: Expression, ranges: Ranges) -> bool:
    """Whether `clear` holds only where `expr` does as well, so that no finding ever ends."""
    if not isinstance(expr.root, Compare):
        return False
    left, wanted = limited(expr.root, ranges, holds=False), limited(clear.root, ranges)
    if left is None or wanted is None or left.node != wanted.node:
        return False
    return (left.values & wanted.values).is_empty


def overlap(expr: Expression, clear: Expression, ranges: Ranges) -> str:
    """`ofu at 0.15 to 0.2`: steady values with which both hold, or nothing where none is known.

    Claimed only where each metric that both speak of stands in simple comparisons alone.
    """
    ours, theirs = _Steady.of(expr, ranges), _Steady.of(clear, ranges)
    shared = ours.metrics & theirs.metrics
    if not shared or not shared <= ours.simple.keys() & theirs.simple.keys():
        return ""
    common = {key: ours.simple[key] & theirs.simple[key] for key in sorted(shared)}
    if any(values.is_empty for values in common.values()):
        return ""
    return " and ".join(f"{key.partition('.')[2]} at {v}" for key, v in common.items())


@dataclass(frozen=True, slots=True)
class _Steady:
    """What a condition says of metrics whose values are steady.

    `simple`: those that stand in simple comparisons alone, with the values with which it holds.
    """

    metrics: frozenset[str]
    simple: Mapping[str, Values]

    @classmethod
    def of(cls, expression: Expression, ranges: Ranges) -> _Steady:
        root = expression.root
        parts = root.operands if isinstance(root, And) else (root,)
        simple: dict[str, Values] = {}
        other: set[str] = set()
        for part in parts:
            found = limited(part, ranges)
            key = steady_metric(found.node) if found else None
            if found and key:
                start = simple.get(key, _possible(found.node, ranges))
                simple[key] = start & found.values
            else:
                other |= _metrics(part)
        known = {key: values for key, values in simple.items() if key not in other}
        return cls(frozenset(simple) | other, known)


def _possible(node: Numeric, ranges: Ranges) -> Values:
    found: Interval = ranges.of(node)
    return Values(found.low, found.high)


def _metrics(part: Node) -> set[str]:
    return {
        f"{node.scope}.{node.metric}" if isinstance(node, Latest | Over) else f".{node.metric}"
        for node in walk(part)
        if isinstance(node, Latest | Over | FlagCondition)
    }
