"""The likely causes of one finding, from scores of an instant.

Enters: `Scores`, and where the finding's entity is. Leaves: ranked causes with their evidence,
most likely first; none when no known cause fits.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from otel_ofu.diagnose.cause import FLAGS
from otel_ofu.diagnose.evidence_text import EvidenceWriter, flags_set
from otel_ofu.diagnose.scoring import CauseScores, Indices, Scores
from otel_ofu.model import EntityKind, RankedCause

TOP = 3
"""Starting value: as many as people read."""
FITS = 0.3
"""Below this no cause is named. Starting value."""
LIKELY = 0.5
"""From here on a cause is named in the headline, and explains what follows from it.
Starting value."""
UNLISTED = 0.95
"""What is left of the score of a cause that the rule does not list: it decides between causes that
fit alike, and outweighs no evidence. Starting value."""
EXPLAINED = 0.5
"""What is left of the score of a cause whose signs follow from another one, so that it stands below
that one. Starting value."""
NEAR = 0.8
"""Of the strength of another one: from here on a cause fits about as well, and a GPU shows it about
as much. Starting value."""


@dataclass(slots=True)
class _Candidate:
    scored: CauseScores
    score: float
    row: int
    share: tuple[int, int] | None
    because: str = ""


@dataclass(frozen=True, slots=True)
class FindingColumns:
    """Where the entity of a finding is: its kind, its column, and the columns of its GPUs."""

    kind: EntityKind
    column: int
    gpus: Indices


class Ranker:
    """Ranks; remembers nothing."""

    def __init__(self, writer: EvidenceWriter) -> None:
        self._writer = writer

    def rank(
        self, scores: Scores, at: FindingColumns, listed: Collection[str]
    ) -> list[RankedCause]:
        """At most three causes, most likely first."""
        candidates = _candidates(scores, at)
        for one in candidates:
            if listed and one.scored.cause.id not in listed:
                one.score *= UNLISTED
        _explain(candidates)
        order = sorted(candidates, key=lambda one: -round(one.score, 2))
        named = [one for one in order if one.score >= FITS][:TOP]
        named += [one for one in order if _flag_only(one) and one not in named][: TOP - len(named)]
        return [self._ranked(one, scores) for one in named] if _fits(named) else []

    def _ranked(self, one: _Candidate, scores: Scores) -> RankedCause:
        cause = one.scored.cause
        texts = self._writer.texts(one.scored, one.row)
        if one.share is not None:
            entity = scores.round.rosters["gpu"].entities[one.row]
            texts.evidence.insert(0, _where(one.share, entity.id if entity else ""))
        if one.because:
            texts.against.append(f"follows from {one.because}")
        return RankedCause(
            id=cause.id,
            title=cause.title,
            score=round(one.score, 3),
            evidence=tuple(texts.evidence),
            against=tuple(texts.against),
            unchecked=tuple(texts.unchecked),
            remark=_remark(cause.remark, cause.confounders),
            next_steps=_steps(cause.next_steps, flags_set(texts.evidence)),
            link=cause.link,
        )


def _candidates(scores: Scores, at: FindingColumns) -> list[_Candidate]:
    """Every cause, by the GPUs of the finding; by the entity itself where it has none."""
    if not len(at.gpus):
        own, row = scores.own.get(at.kind, ()), at.column
        return [_Candidate(scored, float(scored.scores[row]), row, None) for scored in own]
    each = scores.table[:, at.gpus]
    worst = each.argmax(axis=1)
    most = each.max(axis=1)
    alike = (each >= np.maximum(FITS, NEAR * most)[:, None]).sum(axis=1)
    rows = zip(
        scores.gpus,
        each.mean(axis=1, dtype=np.float64).tolist(),
        most.tolist(),
        at.gpus[worst].tolist(),
        alike.tolist(),
        strict=True,
    )
    gpus = len(at.gpus)
    return [
        _Candidate(
            scored,
            mean if scored.cause.spread == "all" else peak,
            row,
            (count, gpus) if gpus > 1 else None,
        )
        for scored, mean, peak, row, count in rows
    ]


def _explain(candidates: Sequence[_Candidate]) -> None:
    """Causes that another one explains count for half: their signs need no cause of their own.

    Evidence is compared, not how grave the causes are.
    """
    strength = {one.scored.cause.id: one.score / one.scored.cause.prior for one in candidates}
    strong = [c.scored.cause for c in candidates if strength[c.scored.cause.id] >= LIKELY]
    strong.sort(key=lambda cause: -strength[cause.id])
    for one in candidates:
        own = one.scored.cause.id
        reason = next((cause for cause in strong if own in cause.explains), None)
        if reason is not None and strength[reason.id] >= NEAR * strength[own]:
            one.score *= EXPLAINED
            one.because = reason.title


def _flag_only(one: _Candidate) -> bool:
    return bool(one.scored.alone[one.row])


def _fits(named: Sequence[_Candidate]) -> bool:
    return any(one.score >= FITS for one in named)


def _where(share: tuple[int, int], gpu: str) -> str:
    return f"on {share[0]} of {share[1]} GPUs; the numbers are those of {gpu}"


def _steps(steps: Sequence[str], flags: Sequence[str]) -> tuple[str, ...]:
    """The steps with the flags that are set; a step about flags is none when none is known."""
    named = " ".join(flags)
    return tuple(s.replace(FLAGS, named) for s in steps if flags or FLAGS not in s)


def _remark(remark: str, confounders: str) -> str:
    return f"{remark} Looks alike: {confounders}" if confounders else remark
