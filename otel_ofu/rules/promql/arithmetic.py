"""Operators over values, whose constants are computed here and vectors written as PromQL.

A constant keeps the rules of the language: what is divided by zero has no value.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping

from otel_ofu.rules.functions import ScalarFunction
from otel_ofu.rules.language.syntax import Comparator, Sign
from otel_ofu.rules.promql.vectors import Value, Vector, infix

_COMPARE: Mapping[Comparator, Callable[[float, float], bool]] = {
    Comparator.LESS: operator.lt,
    Comparator.LESS_EQUAL: operator.le,
    Comparator.GREATER: operator.gt,
    Comparator.GREATER_EQUAL: operator.ge,
    Comparator.EQUAL: operator.eq,
    Comparator.NOT_EQUAL: operator.ne,
}
_COMPUTE: Mapping[Sign, Callable[[float, float], float]] = {
    Sign.ADD: operator.add,
    Sign.SUBTRACT: operator.sub,
    Sign.MULTIPLY: operator.mul,
    Sign.DIVIDE: operator.truediv,
}


def compares(comparator: Comparator, left: float, right: float) -> bool:
    """The outcome of a comparison of constants."""
    return _COMPARE[comparator](left, right)


def scalar(function: ScalarFunction, value: Value) -> Value:
    """None where the result has no value: the operand has none, or it is not finite."""
    if isinstance(value, Vector):
        return Vector(function.promql.format(x=value.text), value.labels)
    return None if value is None else _finite(float(function.compute(value)))


def negative(value: Value) -> Value:
    if isinstance(value, Vector):
        return Vector(f"-{value.inside}", value.labels, atom=False)
    return None if value is None else -value


def arithmetic(sign: Sign, left: Value, right: Value) -> Value:
    """None where the result has no value: an operand has none, or the divisor is zero."""
    if left is None or right is None or (sign is Sign.DIVIDE and right == 0.0):
        return None
    if isinstance(left, Vector) or isinstance(right, Vector):
        if sign is Sign.DIVIDE and isinstance(right, Vector):
            right = infix("!=", right, 0.0)
        return infix(sign.value, left, right)
    return _finite(_COMPUTE[sign](left, right))


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
