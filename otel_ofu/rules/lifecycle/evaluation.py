"""A rule judged at one instant: verdicts by column, and the evidence of a column when asked for.

Enters: what an engine answered. Leaves: `Evaluation`, from which findings take their steps.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from otel_ofu.model import Evidence
from otel_ofu.rules.language.printing import to_text
from otel_ofu.rules.language.syntax import FlagCondition, Latest, Over, walk
from otel_ofu.rules.verdicts import HOLDS, UNKNOWN, Observed, Roster, Verdicts


@dataclass(frozen=True, slots=True)
class Evaluation:
    """One rule judged for all entities of its kind. `clears` None: it has no second condition.

    `observed` gives the comparisons at a column, in the order of the rule's text.
    """

    now_s: float
    roster: Roster
    verdicts: Verdicts
    clears: Verdicts | None
    observed: Callable[[int], Sequence[Observed]]

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
        return tuple(map(evidence_of, ordered))


def evidence_of(observed: Observed) -> Evidence:
    """A comparison as people and events are given it."""
    return Evidence(
        to_text(observed.node),
        _metric(observed),
        _number(observed.value),
        _number(observed.threshold),
        observed.window_s,
        _number(observed.coverage),
    )


def _metric(observed: Observed) -> str:
    """The metric that a comparison is about: the first in it."""
    parts = (p for p in walk(observed.node) if isinstance(p, Latest | Over | FlagCondition))
    return next((part.metric.replace(":", ".") for part in parts), "constant")


def _number(value: float) -> float | None:
    return None if math.isnan(value) else value
