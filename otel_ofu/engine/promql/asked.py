"""The answers of one round: each vector is asked for once, whoever needs it.

Enters: vectors with the labels of entities. Leaves: values by column, and whose each column is.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from otel_ofu.engine import algebra
from otel_ofu.engine.algebra import Values
from otel_ofu.engine.promql.compiler import checked_text
from otel_ofu.engine.promql.identity import Key, entity_of, key_of
from otel_ofu.engine.promql.server import Queries
from otel_ofu.engine.promql.vectors import Value, Vector
from otel_ofu.engine.verdicts import Roster
from otel_ofu.model import EntityKind

KINDS: tuple[EntityKind, ...] = ("gpu", "job", "node")

Answer = Mapping[Key, float] | float


class Asked:
    """Asks at one instant. Entities of every answer get columns, until `close`."""

    def __init__(self, queries: Queries, at_s: float) -> None:
        self._queries = queries
        self._at_s = at_s
        self._answers: dict[tuple[EntityKind, str], Mapping[Key, float]] = {}
        self._columns: dict[EntityKind, dict[Key, int]] = {kind: {} for kind in KINDS}
        self._closed = False

    def close(self) -> None:
        """From now on the columns stay as they are; others in later answers are left out."""
        self._closed = True

    def ask(self, kind: EntityKind, value: Value) -> Answer:
        """A value that has the labels of a kind, for each entity; a constant for all of them.

        Raises QueryError, NotInPromql.
        """
        if not isinstance(value, Vector):
            return math.nan if value is None else value
        text = checked_text(value)
        if (kind, text) not in self._answers:
            samples = self._queries.query(text, self._at_s)
            self._answers[kind, text] = {key_of(kind, labels): one for labels, one in samples}
            self._admit(kind, self._answers[kind, text])
        return self._answers[kind, text]

    def columns(self, kind: EntityKind) -> int:
        return len(self._columns[kind])

    def roster(self, kind: EntityKind) -> Roster:
        return Roster([entity_of(kind, key) for key in self._columns[kind]])

    def values(self, kind: EntityKind, answer: Answer) -> Values:
        """One value a column, NaN where there is none."""
        columns = self._columns[kind]
        if not isinstance(answer, Mapping):
            return algebra.spread(answer, len(columns))
        values = np.full(len(columns), np.nan, np.float32)
        known = [(columns[key], value) for key, value in answer.items() if key in columns]
        with np.errstate(over="ignore"):
            values[[column for column, _ in known]] = [value for _, value in known]
        return values

    def _admit(self, kind: EntityKind, answer: Mapping[Key, float]) -> None:
        columns = self._columns[kind]
        if not self._closed:
            for key in answer:
                columns.setdefault(key, len(columns))
