"""Random well-typed conditions over a few metrics of the registry.

Built from a seed and a size rather than from nested strategies: a hundred times faster, and a
failure still shrinks, to the smallest size that shows it.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from hypothesis import strategies as st

from otel_ofu.model import EntityKind
from otel_ofu.rules.functions import GROUP_FUNCTIONS, SCALAR_FUNCTIONS, WINDOW_FUNCTIONS
from otel_ofu.rules.language import syntax

GAUGES = ("ofu", "gpu_util")
COUNTER = "xid:79"
FLAG = "NCCL_DEBUG"

_RATIOS = tuple(f.name for f in WINDOW_FUNCTIONS.values() if f.metrics == "gauge")
_GROUPS = tuple(f.name for f in GROUP_FUNCTIONS.values() if not f.of_condition)

Leaf = Callable[[], syntax.Numeric]


def conditions(each: EntityKind, longest_s: int = 300) -> st.SearchStrategy[syntax.Boolean]:
    """Conditions whose windows reach back `longest_s` + 100 seconds at most."""
    return st.builds(
        lambda size, seed: Builder(Random(seed), each, longest_s).condition(size),
        st.integers(0, 3),
        st.integers(0, 2**32),
    )


class Builder:
    def __init__(self, random: Random, each: EntityKind, longest_s: int) -> None:
        self.random = random
        self.each = each
        self.longest_s = longest_s
        self.relation = syntax.Relation.PEERS if each == "gpu" else syntax.Relation.GPUS

    def condition(self, size: int) -> syntax.Boolean:
        if size == 0 or self.random.random() < 0.3:
            return self.comparison(self.each)
        shape = self.random.choice((syntax.Not, syntax.And, syntax.Or))
        if shape is syntax.Not:
            return syntax.Not(self.condition(size - 1))
        operands = tuple(self.condition(size - 1) for _ in range(self.random.randint(2, 3)))
        return syntax.And(operands) if shape is syntax.And else syntax.Or(operands)

    def comparison(self, each: EntityKind, *, grouped: bool = True) -> syntax.Boolean:
        if each == "gpu" and self.random.random() < 0.1:
            return syntax.FlagCondition(FLAG)
        leaf = self.leaf(each, grouped=grouped)
        right = self.random.choice((leaf, self.bare))
        comparator = self.random.choice(tuple(syntax.Comparator))
        return syntax.Compare(comparator, self.value(leaf, 2), self.value(right, 1))

    def leaf(self, each: EntityKind, *, grouped: bool) -> Leaf:
        """One family of values, all of one unit."""
        own = self.random.choice((self.ratio, self.count, self.increase, self.rate))
        if each == "gpu" and (not grouped or self.random.random() < 0.5):
            return own
        if self.random.random() < 0.2:
            return self.group_count
        return lambda: self.group(own)

    def value(self, leaf: Leaf, size: int) -> syntax.Numeric:
        """Arithmetic that keeps the unit of its leaves: factors are bare numbers."""
        if size == 0 or self.random.random() < 0.5:
            return leaf()
        inner = self.value(leaf, size - 1)
        match self.random.randrange(4):
            case 0:
                return syntax.Scalar(self.random.choice(tuple(SCALAR_FUNCTIONS)), inner)
            case 1:
                return syntax.Negative(inner)
            case 2:
                return syntax.Arithmetic(
                    self.random.choice((syntax.Sign.MULTIPLY, syntax.Sign.DIVIDE)),
                    inner,
                    self.bare(),
                )
            case _:
                other = self.value(self.random.choice((leaf, self.bare)), size - 1)
                return syntax.Arithmetic(
                    self.random.choice((syntax.Sign.ADD, syntax.Sign.SUBTRACT)), inner, other
                )

    def group(self, own: Leaf) -> syntax.Numeric:
        function = self.random.choice(_GROUPS)
        q = self.share() if GROUP_FUNCTIONS[function].share else None
        return syntax.Aggregate(self.relation, function, self.value(own, 1), q)

    def group_count(self) -> syntax.Numeric:
        operand = self.comparison("gpu", grouped=False)
        return syntax.Aggregate(self.relation, "count", operand)

    def ratio(self) -> syntax.Numeric:
        match self.random.randrange(4):
            case 0:
                return syntax.Latest(self.gauge())
            case 1:
                return syntax.Number(self.random.randint(0, 1000) / 1000, "1")
            case _:
                function = self.random.choice(_RATIOS)
                q = self.share() if WINDOW_FUNCTIONS[function].share else None
                return syntax.Over(function, self.gauge(), *self.span(), q)

    def count(self) -> syntax.Numeric:
        return syntax.Over("count", self.gauge(), *self.span())

    def increase(self) -> syntax.Numeric:
        return syntax.Over("increase", COUNTER, *self.span())

    def rate(self) -> syntax.Numeric:
        return syntax.Over("rate", COUNTER, *self.span())

    def bare(self) -> syntax.Numeric:
        small = float(self.random.randint(0, 20))
        return syntax.Number(self.random.choice((small, small / 20, self.random.random() * 1e9)))

    def gauge(self) -> str:
        return self.random.choice(GAUGES)

    def share(self) -> float:
        return self.random.choice((0.0, 0.25, 0.5, 0.95, 1.0))

    def span(self) -> tuple[float, float]:
        window = self.random.choice(
            (10, 60, self.longest_s, self.random.randint(1, self.longest_s))
        )
        return float(window), self.random.choice((0.0, 0.0, 20.0, 100.0))
