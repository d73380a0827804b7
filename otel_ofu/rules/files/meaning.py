"""Conditions that read well and can never be meant: what ranges decide, and names of no flag.

Enters: a checked condition, the registry, the limits of its rule. Leaves: mistakes with their
position in the text. Doubtful conditions are for `lint`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace

from otel_ofu.catalog.registry import Registry
from otel_ofu.rules.functions.bounds import Interval
from otel_ofu.rules.language.names import nearest
from otel_ofu.rules.language.parsing import shown
from otel_ofu.rules.language.printing import to_text
from otel_ofu.rules.language.ranges import Outcome, Ranges, is_constant
from otel_ofu.rules.language.spans import contradiction
from otel_ofu.rules.language.syntax import (
    Arithmetic,
    Compare,
    DataLimits,
    Expression,
    FlagCondition,
    Latest,
    Number,
    Numeric,
    Over,
    Sign,
    Span,
    walk,
)

# What authors forget: the percent sign, mega, giga, milli; by unit of the metric.
_SLIPS: Mapping[str, tuple[tuple[str, float], ...]] = {
    "1": (("%", 0.01),),
    "Hz": (("e6", 1e6), ("e9", 1e9)),
    "W": (("e-3", 1e-3),),
    "By": (("e9", 1e9),),
    "By/s": (("e9", 1e9),),
    "{flop}/s": (("e12", 1e12),),
}
_SHOWN = ("Hz", "W", "By", "By/s", "Cel")
_HOLDS: Mapping[Outcome, str] = {"always": "always holds", "never": "never holds"}


@dataclass(frozen=True, slots=True)
class MeaningMistake:
    """What is wrong, and with which part of the condition."""

    span: Span
    message: str


@dataclass(frozen=True, slots=True)
class MeaningCheck:
    """`flags`: the names that `flag(…)` may have; None for any."""

    registry: Registry
    flags: Collection[str] | None = None

    def mistakes(self, expression: Expression, limits: DataLimits) -> Iterator[MeaningMistake]:
        """In the order of the text."""
        ranges = Ranges(self.registry, limits)
        for node in walk(expression.root):
            found = self._mistake(node, ranges)
            if found:
                yield MeaningMistake(node.span, found)

    def _mistake(self, node: object, ranges: Ranges) -> str:
        match node:
            case Compare():
                return decided(node, ranges)
            case Arithmetic():
                by_zero = node.sign is Sign.DIVIDE and ranges.of(node.right) == Interval(0.0, 0.0)
                return f"{to_text(node)} never has a value: a division by 0" if by_zero else ""
            case FlagCondition():
                return self.unknown_flag(node.name)
            case _:
                return contradiction(node, ranges)

    def unknown_flag(self, name: str) -> str:
        """A mistake in the name of a flag, or nothing."""
        if self.flags is None or name in self.flags:
            return ""
        hint = nearest(name, self.flags) or "; docs/flags.md lists them"
        return f"unknown flag {shown(name)!r}{hint}"


def decided(node: Compare, ranges: Ranges) -> str:
    """That a comparison ends always alike, with what was probably meant; or nothing."""
    outcome = ranges.outcome(node)
    if outcome is None or outcome == "at_edge":
        return ""
    sides = [(node.left, node.right), (node.right, node.left)]
    exact = replace(ranges, slack=1.0)
    facts = [fact for side, other in sides if (fact := _fact(side, other, exact))]
    why = " and ".join(facts) or "there is no metric in it"
    return f"{to_text(node)} {_HOLDS[outcome]}: {why}{_meant(node, ranges)}"


def _fact(side: Numeric, other: Numeric, ranges: Ranges) -> str:
    """`ofu is at most 1`: what is known of a side that is not a constant."""
    if is_constant(side):
        return ""
    ours, theirs = ranges.of(side), ranges.of(other)
    unit = f" {u}" if (u := _unit(side, ranges.registry)) in _SHOWN else ""
    if ours.is_point:
        return f"{to_text(side)} is {ours.low:g}{unit}"
    end = f"at most {ours.high:g}" if ours.high <= theirs.low else f"at least {ours.low:g}"
    return f"{to_text(side)} is {end}{unit}"


def _meant(node: Compare, ranges: Ranges) -> str:
    """`; did you mean 15%?` for the first unit in which a bare number decides nothing."""
    bare, side = node.right, node.left
    if not isinstance(bare, Number):
        bare, side = node.left, node.right
    if not isinstance(bare, Number) or bare.unit:
        return ""
    for suffix, factor in _SLIPS.get(_unit(side, ranges.registry), ()):
        meant = Number(bare.value * factor)
        changed = replace(node, right=meant) if bare is node.right else replace(node, left=meant)
        if ranges.outcome(changed) is None:
            return f"; did you mean {bare.value:g}{suffix}?"
    return ""


def _unit(side: Numeric, registry: Registry) -> str:
    """The unit of the metrics in a number, when they have one alone."""
    keys = [node.metric for node in walk(side) if isinstance(node, Latest | Over)]
    units = {registry.metric(key).unit for key in keys}
    return units.pop() if len(units) == 1 else ""
