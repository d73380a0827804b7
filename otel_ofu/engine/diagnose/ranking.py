"""The likely causes of one finding, from scores of an instant.

Enters: `Scores`, and whose finding it is. Leaves: ranked causes with their evidence, most likely
first; none when no known cause fits.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from otel_ofu.engine.diagnose.scoring import Indices, Scored, Scores
from otel_ofu.engine.diagnose.wording import Wording
from otel_ofu.model import EntityKind, RankedCause

TOP = 3
FITS = 0.3
"""Below this no cause is named."""
LIKELY = 0.5
"""From here on a cause is named in the headline, and explains what follows from it."""
UNLISTED = 0.95
"""What a cause loses that the rule does not list."""
EXPLAINED = 0.5
NEAR = 0.8
NEVER = -1.0


@dataclass(slots=True)
class _Candidate:
    scored: Scored
    score: float
    row: int
    share: tuple[int, int] | None
    because: str = ""


@dataclass(frozen=True, slots=True)
class Whose:
    """The entity of a finding: its kind, its column, and the columns of its GPUs."""

    kind: EntityKind
    column: int
    gpus: Indices


class Ranker:
    """Ranks; remembers nothing."""

    def __init__(self, wording: Wording) -> None:
        self._wording = wording

    def rank(self, scores: Scores, whose: Whose, listed: Collection[str]) -> list[RankedCause]:
        """At most three causes, most likely first."""
        candidates = [self._candidate(n, scores, whose) for n in range(len(scores.gpus))]
        for one in candidates:
            if listed and one.scored.cause.id not in listed:
                one.score *= UNLISTED
        _explain(candidates)
        order = sorted(candidates, key=lambda one: -round(one.score, 2))
        named = [one for one in order if one.score >= FITS][:TOP]
        named += [one for one in order if _flag_only(one) and one not in named][: TOP - len(named)]
        return [self._told(one, scores) for one in named] if _fits(named) else []

    def _candidate(self, number: int, scores: Scores, whose: Whose) -> _Candidate:
        if not len(whose.gpus):
            own = scores.own.get(whose.kind)
            if own is None:
                return _Candidate(scores.gpus[number], NEVER, 0, None)
            scored = own[number]
            return _Candidate(scored, float(scored.scores[whose.column]), whose.column, None)
        scored = scores.gpus[number]
        each = scored.scores[whose.gpus]
        worst = int(np.argmax(each))
        count = int(np.count_nonzero(each >= max(FITS, NEAR * each[worst])))
        score = float(each.mean(dtype=np.float64)) if scored.cause.spread == "all" else each[worst]
        share = (count, len(each)) if len(each) > 1 else None
        return _Candidate(scored, float(score), int(whose.gpus[worst]), share)

    def _told(self, one: _Candidate, scores: Scores) -> RankedCause:
        cause = one.scored.cause
        said = self._wording.say(one.scored, one.row)
        if one.share is not None:
            entity = scores.round.rosters["gpu"].entities[one.row]
            said.evidence.insert(0, _where(one.share, entity.id if entity else ""))
        if one.because:
            said.against.append(f"follows from {one.because}")
        return RankedCause(
            id=cause.id,
            title=cause.title,
            score=round(one.score, 3),
            evidence=tuple(said.evidence),
            against=tuple(said.against),
            unchecked=tuple(said.unchecked),
            remark=_remark(cause.remark, cause.confounders),
            next_steps=cause.next_steps,
            link=cause.link,
        )


def _explain(candidates: Sequence[_Candidate]) -> None:
    """Causes that another one explains count for half: their signs need no cause of their own.

    Evidence is compared, not how grave the causes are.
    """
    strength = {one.scored.cause.id: one.score / one.scored.cause.prior for one in candidates}
    for one in candidates:
        cause = one.scored.cause
        reasons = [
            other.scored.cause
            for other in candidates
            if cause.id in other.scored.cause.explains
            and strength[other.scored.cause.id] >= max(LIKELY, NEAR * strength[cause.id])
        ]
        if reasons:
            one.score *= EXPLAINED
            one.because = max(reasons, key=lambda reason: strength[reason.id]).title


def _flag_only(one: _Candidate) -> bool:
    return bool(one.scored.alone.size and one.scored.alone[one.row]) and one.score >= 0


def _fits(named: Sequence[_Candidate]) -> bool:
    return any(one.score >= FITS for one in named)


def _where(share: tuple[int, int], gpu: str) -> str:
    return f"on {share[0]} of {share[1]} GPUs; the numbers are those of {gpu}"


def _remark(remark: str, confounders: str) -> str:
    return f"{remark} Looks alike: {confounders}" if confounders else remark
