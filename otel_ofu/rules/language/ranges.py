"""Which values a part of a condition can have, and which comparisons that decides.

Enters: a syntax tree, the registry, the limits of the rule. Leaves: intervals that hold every value
the part can have. An interval may be wider than the values are (`ofu - ofu` is not known to be 0),
never narrower.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal, assert_never

from otel_ofu.catalog.registry import Metric, Registry
from otel_ofu.rules.functions import (
    GROUP_FUNCTIONS,
    SCALAR_FUNCTIONS,
    WINDOW_FUNCTIONS,
    group_function,
)
from otel_ofu.rules.functions.bounds import Interval, same
from otel_ofu.rules.functions.table import PER_SECOND
from otel_ofu.rules.language.syntax import (
    Aggregate,
    Arithmetic,
    Boolean,
    Comparator,
    Compare,
    DataLimits,
    Latest,
    Negative,
    Number,
    Numeric,
    Over,
    Relation,
    Scalar,
    Sign,
    walk,
)

# Starting value: a comparison is decided by typical values only at twice the distance.
SLACK = 2.0

Outcome = Literal["always", "at_edge", "never"]
"""`at_edge`: always, by the very end of a range, as in `ofu >= 0`."""


@dataclass(frozen=True, slots=True)
class Ranges:
    """What values parts of one rule's conditions can have.

    `slack`: how far beyond its typical values a metric may be, as a factor; infinite for all that
    is possible. `step_s`: seconds between samples, where that bounds the number of samples.
    """

    registry: Registry
    limits: DataLimits
    slack: float = SLACK
    step_s: float | None = None

    def of(self, node: Numeric) -> Interval:
        """Every value that a number can have; where it has none does not count."""
        match node:
            case Number():
                return Interval(node.value, node.value)
            case Latest():
                return self._metric(self.registry.metric(node.metric))
            case Over():
                return self._over(node)
            case Aggregate():
                return self._group(node)
            case _:
                return self._computed(node)

    def _computed(self, node: Scalar | Negative | Arithmetic) -> Interval:
        match node:
            case Scalar():
                return SCALAR_FUNCTIONS[node.function].bounds(self.of(node.operand))
            case Negative():
                return -self.of(node.operand)
            case Arithmetic():
                return _computed(node.sign, self.of(node.left), self.of(node.right))
            case _:
                assert_never(node)

    def outcome(self, node: Compare) -> Outcome | None:
        """How a comparison ends wherever both sides are known, if ranges alone decide it."""
        ranges = self
        if Interval(0.0, 0.0) in (self.of(node.left), self.of(node.right)):
            ranges = replace(self, slack=math.inf)  # it asks whether there is anything
        outcome = _outcome(node.comparator, ranges.of(node.left), ranges.of(node.right))
        return None if outcome != "never" and self._is_state(node) else outcome

    def _is_state(self, node: Compare) -> bool:
        """Whether it asks if a state metric is there, which is 1 then."""
        sides = (node.left, node.right)
        return any(self.of(side).is_point and not is_constant(side) for side in sides)

    def _metric(self, metric: Metric) -> Interval:
        possible, typical = _interval(metric.range), _interval(metric.typical)
        if math.isinf(self.slack):
            return possible
        return Interval(
            max(possible.low, _wider(typical.low, -1, self.slack)),
            min(possible.high, _wider(typical.high, 1, self.slack)),
        )

    def _over(self, node: Over) -> Interval:
        function, metric = WINDOW_FUNCTIONS[node.function], self.registry.metric(node.metric)
        found = function.bounds(self._metric(metric))
        if function.unit == "{sample}" and self.step_s:
            return Interval(0.0, math.floor(node.window_s / self.step_s) + 1)
        if metric.kind == "counter" and metric.entity == "gpu" and metric.unit == "s":
            most = 1.0 if function.unit == PER_SECOND else node.window_s
            return found if function.metrics == "any" else Interval(0.0, most * self.slack)
        return found

    def _group(self, node: Aggregate) -> Interval:
        if isinstance(node.operand, Boolean):
            function = group_function(node.function, of_condition=True)
            return function.bounds(Interval(0.0, 1.0))
        counted = GROUP_FUNCTIONS[node.function].of_condition
        if counted and node.relation is Relation.PEERS:
            return Interval(float(self.limits.min_peers))
        return GROUP_FUNCTIONS[node.function].bounds(self.of(node.operand))


def _computed(sign: Sign, left: Interval, right: Interval) -> Interval:
    match sign:
        case Sign.ADD:
            return left + right
        case Sign.SUBTRACT:
            return left + -right
        case Sign.MULTIPLY:
            return left * right
        case Sign.DIVIDE:
            return left / right


def _interval(ends: tuple[float | None, float | None] | None) -> Interval:
    low, high = ends or (None, None)
    return Interval(-math.inf if low is None else low, math.inf if high is None else high)


def _wider(end: float, direction: int, slack: float) -> float:
    """An end of typical values, moved outwards by a factor."""
    return end * slack if end * direction > 0 else end / slack


def _outcome(comparator: Comparator, left: Interval, right: Interval) -> Outcome | None:
    match comparator:
        case Comparator.LESS | Comparator.LESS_EQUAL as sign:
            return _less(left, right, or_equal=sign is Comparator.LESS_EQUAL)
        case Comparator.GREATER | Comparator.GREATER_EQUAL as sign:
            return _less(right, left, or_equal=sign is Comparator.GREATER_EQUAL)
        case Comparator.EQUAL:
            return _equal(left, right, "always", "never")
        case Comparator.NOT_EQUAL:
            return _equal(left, right, "never", "always")


def _less(left: Interval, right: Interval, *, or_equal: bool) -> Outcome | None:
    """The outcome of left < right, or of left <= right."""
    if left.high < right.low:
        return "always"
    if or_equal and left.high == right.low:
        return "always" if left.is_point and right.is_point else "at_edge"
    if left.low > right.high or (not or_equal and left.low == right.high):
        return "never"
    return None


def _equal(left: Interval, right: Interval, same_: Outcome, apart: Outcome) -> Outcome | None:
    if left.high < right.low or right.high < left.low:
        return apart
    if left.is_point and left == right:
        return same_
    return None


def steady_metric(node: Numeric) -> str | None:
    """The metric whose value a number has while that is steady and the same for all of a group."""
    match node:
        case Latest():
            return f"{node.scope}.{node.metric}"
        case Over():
            level = WINDOW_FUNCTIONS[node.function].bounds is same
            return f"{node.scope}.{node.metric}" if level else None
        case Aggregate():
            level = GROUP_FUNCTIONS[node.function].bounds is same
            operand = node.operand
            return None if isinstance(operand, Boolean) or not level else steady_metric(operand)
        case _:
            return None


def is_constant(node: Numeric) -> bool:
    """Whether no metric is in it."""
    return not any(isinstance(n, Latest | Over | Aggregate) for n in walk(node))
