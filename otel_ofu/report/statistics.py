"""How well two lists of numbers agree. Pure; None where nothing can be said."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

FEWEST = 3  # two points always lie on a line


def pearson(x: Sequence[float], y: Sequence[float]) -> float | None:
    """Pearson's r in [-1, 1]; None for fewer than three pairs or a side that does not vary."""
    if len(x) < FEWEST:
        return None
    dx, dy = np.array(x) - np.mean(x), np.array(y) - np.mean(y)
    scale = math.sqrt(float(dx @ dx) * float(dy @ dy))
    if scale <= 0 or not math.isfinite(scale):
        return None
    return min(1.0, max(-1.0, float(dx @ dy) / scale))


def mean_absolute_error(x: Sequence[float], y: Sequence[float]) -> float | None:
    """Mean of |x - y|, in the unit of both; None for no pairs."""
    if not len(x):
        return None
    return float(np.mean(np.abs(np.array(x) - np.array(y))))
