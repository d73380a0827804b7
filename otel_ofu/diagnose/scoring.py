"""All causes judged for all GPUs at one instant.

Enters: the causes, an engine and a store. Leaves: `Scores`, from which every finding of that
instant is ranked. Conditions of a job or a node count for each of its GPUs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from otel_ofu.diagnose.cause import Cause, CauseCatalogue, CauseEvidence
from otel_ofu.diagnose.membership import Shares, membership
from otel_ofu.model import EntityKind
from otel_ofu.rules.algebra import Values
from otel_ofu.rules.language.syntax import DataLimits, Expression
from otel_ofu.rules.lifecycle.evaluator import VerdictSource
from otel_ofu.rules.verdicts import Condition, Judgement, VerdictRound
from otel_ofu.store import Store

AGREES = 0.5
"""From this share on a condition counts as one that holds: the middle of its band."""
MIN_PEERS = 2
"""A cause compares with fewer peers than a rule: the rule has fired already. Starting value."""

Indices = NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class EvidenceScores:
    """One piece of evidence over the rows: how far it holds, NaN for unknown.

    `columns`: the column of the judgement's kind of entity for each row, -1 for none.
    """

    evidence: CauseEvidence
    shares: Shares
    judgement: Judgement | None
    columns: Indices


@dataclass(frozen=True, slots=True)
class CauseScores:
    """One cause over the rows. `alone`: a flag is there and no counter agrees."""

    cause: Cause
    evidence: Sequence[EvidenceScores]
    scores: Shares
    alone: NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Scores:
    """All causes at one instant. `gpus`: rows are GPUs; `own`: rows are jobs or nodes themselves.

    `table`: the scores of `gpus`, [cause, GPU column]. `members`: the column of a GPU's job and
    node, by GPU column. `facts`: numbers of each GPU by name, NaN for none.
    """

    at_s: float
    round: VerdictRound
    gpus: Sequence[CauseScores]
    table: Shares
    own: Mapping[EntityKind, Sequence[CauseScores]]
    members: Mapping[EntityKind, Indices]
    facts: Mapping[str, Values]


class Scorer:
    """Belongs to one thread; nothing is remembered."""

    def __init__(
        self,
        causes: CauseCatalogue,
        engine: VerdictSource,
        store: Store,
        facts: Mapping[str, Expression],
    ) -> None:
        self._causes = causes
        self._engine = engine
        self._store = store
        self._facts = facts
        conditions = dict.fromkeys(causes.expressions())
        expressions = [*conditions, *facts.values()]
        self._conditions = [Condition(e, DataLimits(min_peers=MIN_PEERS)) for e in expressions]
        self._question_of = {e: n for n, e in enumerate(conditions)}

    def score(self, at_s: float) -> Scores:
        """One round over all conditions of all causes. Windows end at `at_s`."""
        with self._store.reading():
            answer = self._engine.round(self._conditions, at_s)
            count = len(answer.rosters["gpu"].entities)
            members: dict[EntityKind, Indices] = {
                "gpu": np.arange(count),
                "job": self._store.membership.jobs(count).copy(),
                "node": self._store.membership.nodes(count).copy(),
            }
        shares = [membership(answer.judgements[n]) for n in self._question_of.values()]
        kinds: tuple[EntityKind, ...] = ("job", "node")
        own = {kind: self._all(answer, shares, self._itself(answer, kind)) for kind in kinds}
        of_facts = answer.judgements[len(self._question_of) :]
        facts = {
            name: judgement.comparisons[0].values
            for name, judgement in zip(self._facts, of_facts, strict=True)
        }
        gpus = self._all(answer, shares, members)
        table = np.stack([scored.scores for scored in gpus]) if gpus else np.zeros((0, count))
        return Scores(at_s, answer, gpus, table.astype(np.float32), own, members, facts)

    def _itself(self, answer: VerdictRound, kind: EntityKind) -> dict[EntityKind, Indices]:
        """Rows that are jobs or nodes: they have no value of another kind."""
        count = len(answer.rosters[kind].entities)
        nobody = np.full(count, -1)
        own = dict.fromkeys(answer.rosters, nobody)
        own[kind] = np.arange(count)
        return own

    def _all(
        self, answer: VerdictRound, shares: Sequence[Shares], columns: dict[EntityKind, Indices]
    ) -> list[CauseScores]:
        scored = []
        for cause in self._causes.causes:
            evidence = [self._evidence(one, answer, shares, columns) for one in cause.evidence]
            scored.append(_scored(cause, evidence))
        return scored

    def _evidence(
        self,
        evidence: CauseEvidence,
        answer: VerdictRound,
        shares: Sequence[Shares],
        columns: dict[EntityKind, Indices],
    ) -> EvidenceScores:
        if evidence.condition is None:
            gpus = columns["gpu"]
            return EvidenceScores(evidence, _has(evidence.attribute, answer, gpus), None, gpus)
        at = columns[evidence.condition.each]
        number = self._question_of[evidence.condition]
        spread: Shares = np.append(shares[number], np.float32(np.nan))[at]
        return EvidenceScores(evidence, spread, answer.judgements[number], at)


def _has(attribute: str, answer: VerdictRound, columns: Indices) -> Shares:
    entities = answer.rosters["gpu"].entities
    found = [bool(e is not None and e.attributes.get(attribute)) for e in entities]
    known: Shares = np.append(np.array(found, np.float32), np.float32(np.nan))[columns]
    return known


def _scored(cause: Cause, evidence: Sequence[EvidenceScores]) -> CauseScores:
    alone = _flag_alone(evidence)
    score = np.full(evidence[0].shares.shape, np.float32(cause.prior))
    known = np.zeros_like(score)
    for one in evidence:
        share = np.where(alone, 0, one.shares) if one.evidence.is_flag else one.shares
        lacking = 1 - share if one.evidence.speaks == "for" else share
        unknown = np.isnan(one.shares)
        score *= np.where(unknown, 1, 1 - one.evidence.weight * lacking).astype(np.float32)
        known += np.where(unknown, 0, _coverage_weight(one.evidence)).astype(np.float32)
    coverage = known / sum(_coverage_weight(one.evidence) for one in evidence)
    return CauseScores(cause, evidence, score * coverage, alone)


def _coverage_weight(evidence: CauseEvidence) -> float:
    """What it counts for coverage: squared, so that no cause is named on side lines alone."""
    return evidence.weight**2 if evidence.speaks == "for" else 0.0


def _flag_alone(evidence: Sequence[EvidenceScores]) -> NDArray[np.bool_]:
    """Where a flag is seen and every counter that could be read contradicts it."""
    flags = [one.shares for one in evidence if one.evidence.is_flag]
    counters = [
        one.shares for one in evidence if not one.evidence.is_flag and one.evidence.speaks == "for"
    ]
    if not flags or not counters:
        return np.zeros(evidence[0].shares.shape, np.bool_)
    seen = np.fmax.reduce(np.stack(flags), axis=0) >= AGREES
    best = np.fmax.reduce(np.stack(counters), axis=0)  # NaN only where none could be read
    alone: NDArray[np.bool_] = seen & (best < AGREES)
    return alone
