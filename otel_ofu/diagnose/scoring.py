"""All causes judged for all GPUs at one instant.

Enters: the causes, an engine and a store. Leaves: `Scores`, from which every finding of that
instant is ranked. Conditions of a job or a node count for each of its GPUs. How far a condition
holds is a number from 0 to 1, NaN where nothing can be said: a comparison that holds is 1; one that
falls short loses it over a band of its threshold, so that a value just off the mark still counts
for something.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import assert_never

import numpy as np
from numpy.typing import NDArray

from otel_ofu.diagnose.cause import Cause, CauseCatalogue, CauseEvidence
from otel_ofu.model import EntityKind
from otel_ofu.rules.algebra import Values
from otel_ofu.rules.language.syntax import (
    And,
    Boolean,
    Comparator,
    Compare,
    DataLimits,
    Expression,
    FlagCondition,
    Node,
    Not,
    Or,
    walk,
)
from otel_ofu.rules.lifecycle.evaluation import VerdictSource
from otel_ofu.rules.verdicts import (
    CLEAR,
    HOLDS,
    UNKNOWN,
    Comparison,
    Condition,
    Judgement,
    VerdictRound,
)
from otel_ofu.store import Store

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
