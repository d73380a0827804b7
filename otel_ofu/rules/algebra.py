"""Arithmetic without values that are not there, and logic with three values.

Numbers are float32 arrays with NaN for no value, or plain floats where no metric is involved.
Truths are bytes in Kleene's order NO < MAYBE < YES: `and` is the smaller, `or` the greater.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from functools import reduce
from typing import assert_never

import numpy as np
from numpy.typing import NDArray

from otel_ofu.rules.language.syntax import (
    And,
    Boolean,
    Comparator,
    Compare,
    FlagCondition,
    Latest,
    Not,
    Numeric,
    Or,
    Sign,
)

NO = 0
MAYBE = 1
YES = 2

Values = NDArray[np.float32]
Quantity = Values | float
Truths = NDArray[np.uint8]
Columns = NDArray[np.intp]

COMPARE: Mapping[Comparator, Callable[[Quantity, Quantity], NDArray[np.bool_] | bool]] = {
    Comparator.LESS: operator.lt,
    Comparator.LESS_EQUAL: operator.le,
    Comparator.GREATER: operator.gt,
    Comparator.GREATER_EQUAL: operator.ge,
    Comparator.EQUAL: operator.eq,
    Comparator.NOT_EQUAL: operator.ne,
}


def spread(quantity: Quantity, columns: int) -> Values:
    """A quantity as one value a column; read only when it is a constant."""
    if isinstance(quantity, np.ndarray):
        return quantity
    with np.errstate(over="ignore"):
        one = np.array(quantity, np.float32)
    # As np.broadcast_to, which takes five times as long: over a few GPUs that is felt.
    constant: Values = np.ndarray(columns, np.float32, one, strides=(0,))
    constant.flags.writeable = False
    return constant


def apply(function: Callable[[Quantity], Quantity], quantity: Quantity) -> Quantity:
    """A function of one number; NaN where it has no value."""
    with np.errstate(all="ignore"):
        return function(quantity)


def compute(sign: Sign, left: Quantity, right: Quantity) -> Quantity:
    """The sum, difference, product or quotient; a division by zero has no value."""
    with np.errstate(all="ignore"):
        match sign:
            case Sign.ADD:
                return left + right
            case Sign.SUBTRACT:
                return left - right
            case Sign.MULTIPLY:
                return left * right
            case Sign.DIVIDE:
                return _divide(left, right)


def _divide(left: Quantity, right: Quantity) -> Quantity:
    if isinstance(right, np.ndarray):
        quotient: Values = np.where(right == 0, np.float32(np.nan), left / right)
        return quotient
    return left / right if right else _nowhere(left)


def _nowhere(quantity: Quantity) -> Quantity:
    if isinstance(quantity, np.ndarray):
        return np.full_like(quantity, np.nan)
    return math.nan


def compare(comparator: Comparator, left: Quantity, right: Quantity, columns: int) -> Truths:
    """The truths of a comparison, MAYBE where a side has no value.

    Bytes and no branches: a thousand rules over the same windows cost little beyond this.
    """
    if not isinstance(left, np.ndarray) and not isinstance(right, np.ndarray):
        left = spread(left, columns)
    with np.errstate(over="ignore"):
        holds = np.asarray(COMPARE[comparator](left, right)).view(np.uint8)
    missing = _missing(left) | _missing(right)
    return (holds & (missing ^ np.uint8(1))) << np.uint8(1) | missing


def _missing(quantity: Quantity) -> Truths:
    return np.asarray(np.isnan(quantity)).view(np.uint8)


def truth(
    node: Boolean,
    columns: int,
    number: Callable[[Numeric], Quantity],
    truths: Callable[[Boolean], Truths],
) -> Truths:
    """The truths of a condition, of the numbers and the truths that it is made of."""
    match node:
        case Compare():
            return compare(node.comparator, number(node.left), number(node.right), columns)
        case FlagCondition():
            return compare(Comparator.NOT_EQUAL, number(Latest(node.metric)), 0.0, columns)
        case Not():
            return np.uint8(YES) - truths(node.operand)
        case And():
            return reduce(np.minimum, [truths(part) for part in node.operands])
        case Or():
            return reduce(np.maximum, [truths(part) for part in node.operands])
        case _:
            assert_never(node)
