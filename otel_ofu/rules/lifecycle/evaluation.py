"""A rule judged at one instant: verdicts by column, and the evidence of a column when asked for.

Enters: what an engine answered. Leaves: `Evaluation`, from which findings take their steps.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from otel_ofu.model import Evidence
from otel_ofu.rules.language.printing import to_text
from otel_ofu.rules.language.syntax import FlagCondition, Latest, Over, walk
from otel_ofu.rules.verdicts import HOLDS, UNKNOWN, EntityComparison, Roster, Verdicts


@dataclass(frozen=True, slots=True)
class Evaluation:
    """One rule judged for all entities of its kind. `clears` None: it has no second condition.

    `observed` gives the comparisons at a column, in the order of the rule's text.
    """

    now_s: float
    roster: Roster
    verdicts: Verdicts
    clears: Verdicts | None
    observed: Callable[[int], Sequence[EntityComparison]]
    _names: dict[int, tuple[str, str]] = field(default_factory=dict)

    def at(self, column: int | None) -> tuple[int, int]:
        """Both verdicts; of an entity that is gone nothing is known."""
        if column is None:
            return UNKNOWN, UNKNOWN
        clears = HOLDS if self.clears is None else int(self.clears[column])
        return int(self.verdicts[column]), clears

    def evidence(self, column: int | None) -> tuple[Evidence, ...]:
        """The comparisons in the order of the text, but the first that holds in front of all."""
        seen = [] if column is None else list(self.observed(column))
        first = next((one for one in seen if one.verdict == HOLDS), None)
        ordered = seen if first is None else [first, *(one for one in seen if one is not first)]
        return tuple(self._evidence(one) for one in ordered)

    def _evidence(self, observed: EntityComparison) -> Evidence:
        """With the text of the comparison, which is rendered once for all columns."""
        node = observed.node
        if id(node) not in self._names:
            self._names[id(node)] = to_text(node), _metric(observed)
        condition, metric = self._names[id(node)]
        return Evidence(
            condition,
            metric,
            _number(observed.value),
            _number(observed.threshold),
            observed.window_s,
            _number(observed.coverage),
        )


def _metric(observed: EntityComparison) -> str:
    """The metric that a comparison is about: the first in it."""
    parts = (p for p in walk(observed.node) if isinstance(p, Latest | Over | FlagCondition))
    return next((part.metric.replace(":", ".") for part in parts), "constant")


def _number(value: float) -> float | None:
    return None if math.isnan(value) else value
