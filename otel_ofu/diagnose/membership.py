"""How far a condition holds, from 0 to 1, for all entities at once.

Enters: a judged condition. Leaves: one number a column, NaN where nothing can be said. A comparison
that holds is 1; one that falls short loses it over a band of its threshold, so that a value just
off the mark still counts for something.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import assert_never

import numpy as np
from numpy.typing import NDArray

from otel_ofu.rules.language.syntax import (
    And,
    Boolean,
    Comparator,
    Compare,
    FlagCondition,
    Node,
    Not,
    Or,
    walk,
)
from otel_ofu.rules.verdicts import CLEAR, HOLDS, UNKNOWN, Comparison, Judgement

Shares = NDArray[np.float32]

BAND = 0.10
"""Against a number: a tenth of it, which is about the spread of the thresholds' own sources."""
CLOSE_BAND = 0.03
"""Against another value, such as that of peers or of the past: they differ by less."""

_UPWARD = (Comparator.GREATER, Comparator.GREATER_EQUAL)
_EXACT = (Comparator.EQUAL, Comparator.NOT_EQUAL)


def membership(judgement: Judgement) -> Shares:
    """0..1 by column, NaN for unknown."""
    root = judgement.condition.expression.root
    if not isinstance(root, Boolean):
        raise TypeError(f"no condition: {judgement.condition.expression.text}")
    return _share(root, iter(judgement.comparisons))


def _share(node: Boolean, leaves: Iterator[Comparison], *, negated: bool = False) -> Shares:
    match node:
        case Compare() | FlagCondition():
            return _of_leaf(next(leaves), negated=negated)
        case Not():
            return _share(node.operand, leaves, negated=not negated)
        case And() | Or():
            parts = [_share(part, leaves, negated=negated) for part in node.operands]
            return _least(parts) if isinstance(node, And) != negated else _most(parts)
        case _:
            assert_never(node)


def _least(parts: list[Shares]) -> Shares:
    """The smallest; 0 whatever else is unknown, otherwise unknown when a part is."""
    stack = np.stack(parts)
    unknown = np.isnan(stack).any(axis=0) & ~(stack == 0).any(axis=0)
    least: Shares = np.where(unknown, np.float32(np.nan), np.fmin.reduce(stack, axis=0))
    return least


def _most(parts: list[Shares]) -> Shares:
    return np.float32(1) - _least([np.float32(1) - part for part in parts])


def _of_leaf(leaf: Comparison, *, negated: bool) -> Shares:
    holds = (leaf.verdicts == (CLEAR if negated else HOLDS)).astype(np.float32)
    unknown = leaf.verdicts == UNKNOWN
    node = leaf.node
    if isinstance(node, Compare) and node.comparator not in _EXACT:
        upward = (node.comparator in _UPWARD) != negated
        holds = np.maximum(holds, _nearly(leaf, node, upward=upward))
    return np.where(unknown, np.float32(np.nan), holds).astype(np.float32)


def _nearly(leaf: Comparison, node: Compare, *, upward: bool) -> Shares:
    missing = leaf.thresholds - leaf.values if upward else leaf.values - leaf.thresholds
    band = _band(node.right) * np.abs(leaf.thresholds)
    with np.errstate(all="ignore"):
        share = 1 - missing / band
    nearly: Shares = np.where(band > 0, np.clip(np.nan_to_num(share), 0, 1), 0)
    return nearly


def _band(right: Node) -> float:
    return CLOSE_BAND if any(hasattr(node, "metric") for node in walk(right)) else BAND
