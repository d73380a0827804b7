"""What could not be used of a request, by reason: for the answer, and for the counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

# Starting values: an answer has a few lines, and names come from clients.
_MOST_REASONS = 5
_MOST_NAMES = 3
_MOST_COUNTED = 256
_LONGEST_NAME = 80
OTHER = "(other names)"


class RejectedPoints:
    """Counts of points by reason, each with a few of the metric names."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._names: dict[str, dict[str, None]] = {}

    def add(self, reason: str, name: str = "", points: int = 1) -> None:
        if points:
            self._counts[reason] += points
            names = self._names.setdefault(reason, {})
            if name and len(names) <= _MOST_NAMES:
                names[name[:_LONGEST_NAME]] = None

    def update(self, other: RejectedPoints) -> None:
        self._counts.update(other._counts)
        for reason, names in other._names.items():
            self._names.setdefault(reason, {}).update(names)

    @property
    def points(self) -> int:
        return self._counts.total()

    @property
    def counts(self) -> Mapping[str, int]:
        """Points by reason."""
        return self._counts

    def __str__(self) -> str:
        """`12 points: unknown metric (a, b); 3 points: out of range (c)`; "" when all was used."""
        texts = [self._text(*item) for item in self._counts.most_common(_MOST_REASONS)]
        rest = len(self._counts) - len(texts)
        return "; ".join([*texts, *([f"{rest} more reasons"] if rest > 0 else [])])

    def _text(self, reason: str, points: int) -> str:
        names = list(self._names.get(reason, {}))
        shown = ", ".join(names[:_MOST_NAMES]) + (", …" if len(names) > _MOST_NAMES else "")
        return f"{points} point{'s'[: points > 1]}: {reason}" + (f" ({shown})" if names else "")


class NameCounts:
    """Points by metric name, for a bounded number of names."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def add(self, name: str, points: int) -> None:
        name = name[:_LONGEST_NAME]
        known = name in self._counts or len(self._counts) < _MOST_COUNTED
        self._counts[name if known else OTHER] += points

    @property
    def counts(self) -> Mapping[str, int]:
        """A copy, so that another thread may read it."""
        return dict(self._counts)
