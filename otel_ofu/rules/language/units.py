"""Units of sub-expressions: UCUM text of the registry -> exponents that multiply and divide.

A `Unit` is None for a bare number, which goes with any unit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import cache

from otel_ofu.rules.functions import table as functions

Unit = tuple[tuple[str, int], ...] | None

RATIO: Unit = ()
SECOND: Unit = (("s", 1),)
BARE: Unit = None

# So that the rate of a counter meets the gauge of the same thing: J/s = W, 1/s = Hz.
_DERIVED: Mapping[str, str] = {"Hz": "1/s", "W": "J/s"}
_NAMES: Mapping[Unit, str] = {RATIO: "a ratio", (("s", -1),): "Hz", (("J", 1), ("s", -1)): "W"}


@cache
def parse_unit(ucum: str) -> Unit:
    """The unit of UCUM text with products and quotients of plain names: `By/s`, `1`, `Hz`."""
    over, _, under = _DERIVED.get(ucum, ucum).partition("/")
    powers = Counter(name for name in over.split(".") if name != "1")
    powers.subtract(name for name in under.split(".") if name)
    return _unit(powers)


def times(left: Unit, right: Unit, power: int = 1) -> Unit:
    """The unit of left x right^power. A bare number counts as a ratio unless both are bare."""
    if left is None and right is None:
        return BARE
    powers = Counter(dict(left or ()))
    for name, exponent in right or ():
        powers[name] += exponent * power
    return _unit(powers)


def result_unit(rule: str, operand: Unit) -> Unit:
    """The unit of a function's result, by the rule in its row: that of the operand or its own."""
    match rule:
        case functions.SAME_UNIT:
            return operand
        case functions.PER_SECOND:
            return times(operand, SECOND, -1)
        case _:
            return parse_unit(rule)


def agree(left: Unit, right: Unit) -> bool:
    """Whether two values can be compared or added."""
    return left is None or right is None or left == right


def describe(unit: Unit) -> str:
    """The unit in words for an error message: `a ratio`, `Hz`, `By/s`."""
    if unit is None:
        return "a bare number"
    if unit in _NAMES:
        return _NAMES[unit]
    over = ".".join(_power(name, exponent) for name, exponent in unit if exponent > 0)
    under = ".".join(_power(name, -exponent) for name, exponent in unit if exponent < 0)
    return f"{over or '1'}/{under}" if under else over


def _power(name: str, exponent: int) -> str:
    return name if exponent == 1 else f"{name}{exponent}"


def _unit(powers: Mapping[str, int]) -> Unit:
    return tuple(sorted((name, power) for name, power in powers.items() if power))
