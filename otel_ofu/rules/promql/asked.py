"""The answers of one round: each vector is asked for once, whoever needs it.

Enters: vectors with the labels of entities. Leaves: values by column, and whose each column is.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from otel_ofu.model import EntityKind
from otel_ofu.rules import algebra
from otel_ofu.rules.algebra import Values
from otel_ofu.rules.promql.compiler import checked_text
from otel_ofu.rules.promql.identity import Key, entity_of, key_of
from otel_ofu.rules.promql.server import Queries
from otel_ofu.rules.promql.vectors import Value, Vector
from otel_ofu.rules.verdicts import Roster

KINDS: tuple[EntityKind, ...] = ("gpu", "job", "node")


class Asked:
    """Asks at one instant. Entities of every answer get columns, until `close`."""

    def __init__(self, queries: Queries, at_s: float) -> None:
        self._queries = queries
        self._at_s = at_s
        self._answers: dict[tuple[EntityKind, str], Mapping[Key, float]] = {}
        self._values: dict[tuple[EntityKind, str], Values] = {}
        self._columns: dict[EntityKind, dict[Key, int]] = {kind: {} for kind in KINDS}
        self._closed = False

    def ask(self, kind: EntityKind, value: Value) -> None:
        """Asks for a value that has the labels of a kind. Raises QueryError, NotInPromql."""
        if isinstance(value, Vector):
            self._answer(kind, checked_text(value))

    def close(self) -> None:
        """From now on the columns stay as they are; others in later answers are left out."""
        self._closed = True

    def values(self, kind: EntityKind, value: Value) -> Values:
        """One value a column, NaN where there is none; only after `close`.

        What was not asked for before is asked for now. Raises QueryError, NotInPromql.
        """
        if not isinstance(value, Vector):
            constant = math.nan if value is None else value
            return algebra.spread(constant, len(self._columns[kind]))
        place = kind, checked_text(value)
        if place not in self._values:
            self._values[place] = self._spread(kind, self._answer(*place))
        return self._values[place]

    def roster(self, kind: EntityKind) -> Roster:
        return Roster([entity_of(kind, key) for key in self._columns[kind]])

    def _answer(self, kind: EntityKind, text: str) -> Mapping[Key, float]:
        if (kind, text) not in self._answers:
            samples = self._queries.query(text, self._at_s)
            answer = {key_of(kind, labels): one for labels, one in samples}
            self._answers[kind, text] = answer
            if not self._closed:
                columns = self._columns[kind]
                for key in answer:
                    columns.setdefault(key, len(columns))
        return self._answers[kind, text]

    def _spread(self, kind: EntityKind, answer: Mapping[Key, float]) -> Values:
        columns = self._columns[kind]
        values = np.full(len(columns), np.nan, np.float32)
        known = [(columns[key], value) for key, value in answer.items() if key in columns]
        with np.errstate(over="ignore"):
            values[[column for column, _ in known]] = [value for _, value in known]
        return values
