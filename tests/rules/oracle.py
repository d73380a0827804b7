"""The rules of evaluation once more: plain Python, one entity and one sample at a time.

Numbers carry how far float32 may be off, so that a comparison that nobody can decide is `Near`
rather than a difference between engines.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import assert_never

from otel_ofu.model import EntityKind
from otel_ofu.rules.language import syntax

STEP_S = 10.0
FRESH_BUCKETS = 6
COUNTER_GAP = 30
ROUNDING = 2e-6

_COMPARE: Mapping[syntax.Comparator, Callable[[float, float], bool]] = {
    syntax.Comparator.LESS: operator.lt,
    syntax.Comparator.LESS_EQUAL: operator.le,
    syntax.Comparator.GREATER: operator.gt,
    syntax.Comparator.GREATER_EQUAL: operator.ge,
    syntax.Comparator.EQUAL: operator.eq,
    syntax.Comparator.NOT_EQUAL: operator.ne,
}


_SCALAR: Mapping[str, Callable[[float], float]] = {"abs": abs}


class Near(Exception):  # noqa: N818 - an outcome
    """The two sides of a comparison are too near for float32."""


@dataclass(frozen=True)
class Gpu:
    """One GPU: whose it is, and raw samples by metric and bucket."""

    job: str
    node: str
    sku: str
    samples: Mapping[str, Mapping[int, float]] = field(default_factory=dict)


@dataclass(frozen=True)
class About:
    """A number and how far off it may be."""

    value: float
    error: float

    @classmethod
    def of(cls, value: float, error: float = 0.0) -> About:
        return cls(value, error + abs(value) * ROUNDING)


@dataclass(frozen=True)
class Oracle:
    gpus: Mapping[str, Gpu]
    at: int
    min_coverage: float
    min_peers: int
    counters: frozenset[str]

    def truth(self, kind: EntityKind, name: str, node: syntax.Boolean) -> bool | None:
        match node:
            case syntax.Compare():
                return self._compare(kind, name, node)
            case syntax.FlagCondition():
                value = self._latest(name, node.metric)
                return None if value is None else value.value != 0
            case syntax.Not():
                inner = self.truth(kind, name, node.operand)
                return None if inner is None else not inner
            case syntax.And():
                return _kleene([self.truth(kind, name, part) for part in node.operands], all_=True)
            case syntax.Or():
                return _kleene([self.truth(kind, name, part) for part in node.operands], all_=False)
            case _:
                assert_never(node)

    def _compare(self, kind: EntityKind, name: str, node: syntax.Compare) -> bool | None:
        left, right = self.number(kind, name, node.left), self.number(kind, name, node.right)
        if left is None or right is None:
            return None
        if abs(left.value - right.value) <= left.error + right.error:
            raise Near
        return _COMPARE[node.comparator](left.value, right.value)

    def number(self, kind: EntityKind, name: str, node: syntax.Numeric) -> About | None:
        match node:
            case syntax.Number():
                return About.of(node.value)
            case syntax.Latest():
                return self._latest(name, node.metric)
            case syntax.Over():
                return self._over(name, node)
            case syntax.Aggregate():
                return self._group(kind, name, node)
            case _:
                return self._arithmetic(kind, name, node)

    def _arithmetic(
        self, kind: EntityKind, name: str, node: syntax.Scalar | syntax.Negative | syntax.Arithmetic
    ) -> About | None:
        if isinstance(node, syntax.Arithmetic):
            left = self.number(kind, name, node.left)
            right = self.number(kind, name, node.right)
            return None if left is None or right is None else _arithmetic(node.sign, left, right)
        inner = self.number(kind, name, node.operand)
        if inner is None:
            return None
        turned = (
            _SCALAR[node.function](inner.value) if isinstance(node, syntax.Scalar) else -inner.value
        )
        return About(turned, inner.error)

    def _latest(self, name: str, metric: str) -> About | None:
        samples = self.gpus[name].samples.get(metric, {})
        fresh = [b for b in samples if self.at - FRESH_BUCKETS <= b <= self.at]
        return About.of(samples[max(fresh)]) if fresh else None

    def _over(self, name: str, node: syntax.Over) -> About | None:
        end = self.at * STEP_S - node.offset_s
        first, last = _bucket(end - node.window_s), _bucket(end)
        inside = [(b, v) for b, v in self._series(name, node.metric) if first < b <= last]
        if node.function == "count":
            return About(len(inside), 0.0)
        expected = max(1.0, node.window_s / STEP_S)
        enough = node.function == "last" or len(inside) >= self.min_coverage * expected - 1e-5
        return _window(node, inside) if inside and enough else None

    def _series(self, name: str, metric: str) -> list[tuple[int, float]]:
        samples = sorted(self.gpus[name].samples.get(metric, {}).items())
        if metric not in self.counters:
            return samples
        pairs = itertools.pairwise(samples)
        return [(b, v if v < u else v - u) for (a, u), (b, v) in pairs if b - a <= COUNTER_GAP]

    def _group(self, kind: EntityKind, name: str, node: syntax.Aggregate) -> About | None:
        values = []
        for other in self._members(kind, name, node.relation):
            if isinstance(node.operand, syntax.Boolean):
                truth = self.truth("gpu", other, node.operand)
                value = None if truth is None else About(float(truth), 0.0)
            else:
                value = self.number("gpu", other, node.operand)
            if value is not None:
                values.append(value)
        least = self.min_peers if node.relation is syntax.Relation.PEERS else 1
        of_gpus = node.relation is syntax.Relation.GPUS and not isinstance(
            node.operand, syntax.Boolean
        )
        if of_gpus and node.function == "count":
            return About(len(values), 0.0)
        return _grouped(node, values) if len(values) >= least else None

    def _members(self, kind: EntityKind, name: str, relation: syntax.Relation) -> list[str]:
        if relation is syntax.Relation.GPUS:
            return [n for n, g in self.gpus.items() if (g.job if kind == "job" else g.node) == name]
        mine = self.gpus[name]
        same = [n for n, g in self.gpus.items() if (g.job, g.sku) == (mine.job, mine.sku)]
        return same if mine.job else []


def _bucket(time_s: float) -> int:
    return math.ceil(time_s / STEP_S - 0.1)


def _kleene(parts: Sequence[bool | None], *, all_: bool) -> bool | None:
    if (not all_) in parts:
        return not all_
    return None if None in parts else all_


def _arithmetic(sign: syntax.Sign, left: About, right: About) -> About | None:
    a, b = left, right
    match sign:
        case syntax.Sign.ADD:
            return About.of(a.value + b.value, a.error + b.error)
        case syntax.Sign.SUBTRACT:
            return About.of(a.value - b.value, a.error + b.error)
        case syntax.Sign.MULTIPLY:
            error = abs(a.value) * b.error + abs(b.value) * a.error + a.error * b.error
            return About.of(a.value * b.value, error)
        case syntax.Sign.DIVIDE:
            if b.value == 0 and b.error == 0:
                return None
            if abs(b.value) <= b.error:
                raise Near
            error = (a.error + abs(a.value / b.value) * b.error) / (abs(b.value) - b.error)
            return About.of(a.value / b.value, error)


def _window(node: syntax.Over, inside: Sequence[tuple[int, float]]) -> About | None:
    values = [v for _, v in inside]
    if node.function == "rate":
        return _rate(inside) if len(inside) > 1 else None
    off = max(abs(v) for v in values) * 1e-5
    mean = sum(values) / len(values)
    results: Mapping[str, Callable[[], float]] = {
        "avg": lambda: mean,
        "sum": lambda: sum(values),
        "increase": lambda: sum(values),
        "min": lambda: min(values),
        "max": lambda: max(values),
        "last": lambda: values[-1],
        "quantile": lambda: _quantile(node.q or 0.0, values),
        "stddev": lambda: math.sqrt(sum((v - mean) ** 2 for v in values) / len(values)),
    }
    added = node.function in {"sum", "increase"}
    return About(results[node.function](), off * len(values) if added else off)


def _rate(inside: Sequence[tuple[int, float]]) -> About:
    elapsed_s = (inside[-1][0] - inside[0][0]) * STEP_S
    total = sum(v for _, v in inside)
    return About.of((total - inside[0][1]) / elapsed_s, total * 1e-6 / elapsed_s)


def _quantile(q: float, values: Sequence[float]) -> float:
    ordered = sorted(values)
    rank = q * (len(ordered) - 1)
    low = math.floor(rank)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (rank - low)


def _grouped(node: syntax.Aggregate, members: Sequence[About]) -> About:
    values = [m.value for m in members]
    error = max(m.error for m in members)
    largest = max(abs(v) for v in values) * 1e-5
    if isinstance(node.operand, syntax.Boolean):
        return About(sum(values), 0.0)
    match node.function:
        case "count":
            return About(len(values), 0.0)
        case "sum":
            return About(sum(values), sum(m.error for m in members) + largest * len(values))
        case "avg":
            return About(sum(values) / len(values), error + largest)
        case "mad":
            median = _quantile(0.5, values)
            return About(_quantile(0.5, [abs(v - median) for v in values]), 2 * error + largest)
        case _:
            q = {"min": 0.0, "max": 1.0, "median": 0.5, "quantile": node.q or 0.0}
            share = q[node.function]
            return About(_quantile(share, values), error + largest)
