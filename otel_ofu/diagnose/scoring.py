"""All causes judged for all GPUs at one instant.

Enters: the causes, an engine and a store. Leaves: `Scores`, from which every finding of that
instant is ranked. Conditions of a job or a node count for each of its GPUs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from otel_ofu.diagnose.cause import Cause, CauseBook, Clue
from otel_ofu.diagnose.facts import Fact, FactRow
from otel_ofu.diagnose.membership import Shares, membership
from otel_ofu.model import EntityKind
from otel_ofu.rules.verdicts import Judgement, Question, Round
from otel_ofu.store import Store

AGREES = 0.5
MIN_PEERS = 2

Indices = NDArray[np.intp]


class Judges(Protocol):
    """An engine that judges conditions (otel_ofu.rules.numpy.engine)."""

    def round(self, questions: Sequence[Question], at_s: float) -> Round: ...


@dataclass(frozen=True, slots=True)
class Row:
    """One piece of evidence over the rows: how far it holds, NaN for unknown.

    `judgement` is of `kind`; `columns` is the column of that kind for each row, -1 for none.
    """

    clue: Clue
    shares: Shares
    judgement: Judgement | None
    columns: Indices


@dataclass(frozen=True, slots=True)
class Scored:
    """One cause over the rows. `alone`: a flag is there and no counter agrees."""

    cause: Cause
    rows: Sequence[Row]
    scores: Shares
    alone: NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Scores:
    """All causes at one instant. `gpus`: rows are GPUs; `own`: rows are jobs or nodes themselves.

    `table`: the scores of `gpus`, [cause, GPU column]. `members`: the column of a GPU's job and
    node, by GPU column.
    """

    at_s: float
    round: Round
    gpus: Sequence[Scored]
    table: Shares
    own: Mapping[EntityKind, Sequence[Scored]]
    members: Mapping[EntityKind, Indices]
    facts: Sequence[FactRow]


class Scorer:
    """Belongs to one thread; nothing is remembered."""

    def __init__(
        self, book: CauseBook, engine: Judges, store: Store, facts: Sequence[Fact] = ()
    ) -> None:
        self._book = book
        self._engine = engine
        self._store = store
        self._facts = facts
        conditions = dict.fromkeys(book.expressions())
        expressions = [*conditions, *(fact.expression for fact in facts)]
        self._questions = [Question(e, min_peers=MIN_PEERS) for e in expressions]
        self._place = {e: n for n, e in enumerate(conditions)}

    def score(self, at_s: float) -> Scores:
        """One round over all conditions of all causes. Windows end at `at_s`."""
        with self._store.reading():
            answer = self._engine.round(self._questions, at_s)
            count = len(answer.rosters["gpu"].entities)
            members: dict[EntityKind, Indices] = {
                "gpu": np.arange(count),
                "job": self._store.membership.jobs(count).copy(),
                "node": self._store.membership.nodes(count).copy(),
            }
        shares = [membership(answer.judgements[n]) for n in self._place.values()]
        kinds: tuple[EntityKind, ...] = ("job", "node")
        own = {kind: self._all(answer, shares, self._itself(answer, kind)) for kind in kinds}
        facts = [
            FactRow(fact, answer.judgements[len(self._place) + n].evidence[0].values)
            for n, fact in enumerate(self._facts)
        ]
        gpus = self._all(answer, shares, members)
        table = np.stack([scored.scores for scored in gpus]) if gpus else np.zeros((0, count))
        return Scores(at_s, answer, gpus, table.astype(np.float32), own, members, facts)

    def _itself(self, answer: Round, kind: EntityKind) -> dict[EntityKind, Indices]:
        """Rows that are jobs or nodes: they have no value of another kind."""
        count = len(answer.rosters[kind].entities)
        nobody = np.full(count, -1)
        own = dict.fromkeys(answer.rosters, nobody)
        own[kind] = np.arange(count)
        return own

    def _all(
        self, answer: Round, shares: Sequence[Shares], columns: dict[EntityKind, Indices]
    ) -> list[Scored]:
        scored = []
        for cause in self._book.causes:
            rows = [self._row(clue, answer, shares, columns) for clue in cause.clues]
            scored.append(_scored(cause, rows))
        return scored

    def _row(
        self,
        clue: Clue,
        answer: Round,
        shares: Sequence[Shares],
        columns: dict[EntityKind, Indices],
    ) -> Row:
        if clue.condition is None:
            return Row(clue, _has(clue.attribute, answer, columns["gpu"]), None, columns["gpu"])
        at = columns[clue.condition.each]
        number = self._place[clue.condition]
        spread: Shares = np.append(shares[number], np.float32(np.nan))[at]
        return Row(clue, spread, answer.judgements[number], at)


def _has(attribute: str, answer: Round, columns: Indices) -> Shares:
    entities = answer.rosters["gpu"].entities
    found = [bool(e is not None and e.attributes.get(attribute)) for e in entities]
    known: Shares = np.append(np.array(found, np.float32), np.float32(np.nan))[columns]
    return known


def _scored(cause: Cause, rows: Sequence[Row]) -> Scored:
    alone = _flag_alone(rows)
    score = np.full(rows[0].shares.shape, np.float32(cause.prior))
    known = np.zeros_like(score)
    for row in rows:
        share = np.where(alone, 0, row.shares) if row.clue.is_flag else row.shares
        lacking = 1 - share if row.clue.speaks == "for" else share
        unknown = np.isnan(row.shares)
        score *= np.where(unknown, 1, 1 - row.clue.weight * lacking).astype(np.float32)
        known += np.where(unknown, 0, _heft(row.clue)).astype(np.float32)
    coverage = known / sum(_heft(row.clue) for row in rows)
    return Scored(cause, rows, score * coverage, alone)


def _heft(clue: Clue) -> float:
    """What a clue counts for coverage: squared, so that nobody is accused on side lines alone."""
    return clue.weight**2 if clue.speaks == "for" else 0.0


def _flag_alone(rows: Sequence[Row]) -> NDArray[np.bool_]:
    """Where a flag is seen and every counter that could be read says otherwise."""
    flags = [row.shares for row in rows if row.clue.is_flag]
    counters = [r.shares for r in rows if not r.clue.is_flag and r.clue.speaks == "for"]
    if not flags or not counters:
        return np.zeros(rows[0].shares.shape, np.bool_)
    seen = np.fmax.reduce(np.stack(flags), axis=0) >= AGREES
    best = np.fmax.reduce(np.stack(counters), axis=0)  # NaN only where none could be read
    alone: NDArray[np.bool_] = seen & (best < AGREES)
    return alone
