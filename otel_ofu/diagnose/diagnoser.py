"""A finding and why: causes, numbers, since when.

Enters: findings of an engine. Leaves: the same findings with causes, facts (means over the GPUs of
the finding) and annotations. All causes are judged once for all findings of an instant, so hundreds
at once cost little more than one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from otel_ofu.catalog.registry import Registry
from otel_ofu.diagnose.cause import Cause, CauseCatalogue
from otel_ofu.diagnose.evidence_text import EvidenceWriter
from otel_ofu.diagnose.onset import Onset, OnsetFinder
from otel_ofu.diagnose.ranking import LIKELY, FindingColumns, Ranker
from otel_ofu.diagnose.scoring import Scorer, Scores
from otel_ofu.model import Finding, RankedCause
from otel_ofu.rules.algebra import Values
from otel_ofu.rules.language.language import parse_condition
from otel_ofu.rules.language.syntax import Expression, FlagCondition, walk
from otel_ofu.rules.lifecycle.evaluation import VerdictSource
from otel_ofu.store import Store

_VALUES = {
    "ofu": "avg(ofu, 5m)",
    "ofu_before": "avg(ofu, 1h offset 15m)",
    "gpu_util": "avg(gpu_util, 5m)",
    "tensor_active": "avg(tensor_active, 5m)",
    "clock_factor": "avg(clock_factor, 5m)",
    "power_w": "avg(power, 5m)",
    "mfu": "job.avg(mfu, 10m)",
    "step_s": "job.avg(step_time, 5m)",
    "ofu_baseline": "job.avg(job_ofu_baseline, 10m)",
}


def fact_expressions(registry: Registry) -> dict[str, Expression]:
    """What is evaluated of every GPU in each round; the value is the left side of each."""
    return {
        name: parse_condition(f"{text} >= 0", "gpu", registry) for name, text in _VALUES.items()
    }


def facts_of(values: Mapping[str, Values], gpus: NDArray[np.intp]) -> dict[str, float]:
    """Means over some GPUs; a name is there only when one of them has a value."""
    found: dict[str, float] = {}
    for name, column in values.items():
        known = column[gpus][~np.isnan(column[gpus])]
        if known.size:
            found[name] = float(known.mean(dtype=np.float64))
    return found


def gpu_hours_lost(facts: dict[str, float], gpus: int, lasted_s: float) -> float | None:
    """GPU time that the same work would not have needed at the OFU of before; None if not less.

    Source: the share of time lost at OFU x against y is 1 - x / y.
    """
    now, before = facts.get("ofu"), facts.get("ofu_before") or facts.get("ofu_baseline")
    if now is None or not before or now >= before or lasted_s <= 0:
        return None
    return (1 - now / before) * gpus * lasted_s / 3_600


NO_KNOWN_CAUSE = "no known cause fits"
PROFILE_NEXT = (
    "look at gaps between kernels and at the longest of them, over 30 s of one rank:"
    " nsys profile -t cuda,nvtx,osrt -d 30 -o ofu <command>\n"
    "see what Python does: py-spy dump --pid <pid>"
)


def evaluated_expressions(causes: CauseCatalogue, registry: Registry) -> list[Expression]:
    """Every expression that diagnosis evaluates, for how much history to keep."""
    return [*causes.expressions(), *fact_expressions(registry).values()]


@dataclass(slots=True)
class _Instant:
    """What was found out once for all findings of an instant."""

    scores: Scores
    onsets: OnsetFinder


class Diagnoser:
    """Belongs to the thread of the rules. `delay_s` as the engine has it."""

    def __init__(
        self,
        causes: CauseCatalogue,
        engine: VerdictSource,
        store: Store,
        registry: Registry,
        *,
        delay_s: float = 0.0,
    ) -> None:
        self._causes = causes
        self._by_id = {cause.id: cause for cause in causes.causes}
        self._scorer = Scorer(causes, engine, store, fact_expressions(registry))
        self._ranker = Ranker(EvidenceWriter(registry))
        self._store = store
        self._delay_s = delay_s
        self._instant: _Instant | None = None

    def diagnose(self, finding: Finding) -> Finding:
        """With its causes. One that ends keeps those that it has."""
        if finding.entity is None:
            return finding
        if finding.kind == "resolved":
            lasted_s = max(0.0, finding.at_s - finding.since_s)
            return replace(finding, facts={**finding.facts, "lasted_s": lasted_s})
        return self._with_causes(finding)

    def is_legitimate(self, finding: Finding) -> bool:
        """Whether its most likely cause is meant to be."""
        first = next(iter(finding.causes), None)
        cause = self._by_id.get(first.id) if first else None
        return bool(first and cause and cause.legitimate and first.score >= LIKELY)

    def _with_causes(self, finding: Finding) -> Finding:
        instant = self._at(finding.at_s - self._delay_s)
        columns = _columns(finding, instant.scores)
        if columns is None:
            return finding
        ranked = self._ranker.rank(instant.scores, columns, self._causes.expand(finding.candidates))
        onset = instant.onsets.find(columns.gpus, self._flags(ranked))
        known = replace(
            finding,
            causes=tuple(ranked),
            facts=_facts(instant.scores, columns, finding, onset),
            annotations={**_annotations(ranked, onset), **finding.annotations},
        )
        return _mild(known) if self.is_legitimate(known) else known

    def _at(self, at_s: float) -> _Instant:
        if self._instant is None or self._instant.scores.at_s != at_s:
            self._instant = _Instant(self._scorer.score(at_s), OnsetFinder(self._store, at_s))
        return self._instant

    def _flags(self, ranked: Sequence[RankedCause]) -> list[str]:
        """The flags that the most likely causes name and that are there."""
        lines = {line for cause in ranked for line in cause.evidence}
        causes = (self._by_id[cause.id] for cause in ranked)
        return [name for cause in causes for name in _names(cause) if f"{name} is set" in lines]


def _columns(finding: Finding, scores: Scores) -> FindingColumns | None:
    """None for an entity that the store does not know any more."""
    if finding.entity is None:
        return None
    kind = finding.entity.kind
    column = scores.round.rosters[kind].column(finding.entity.id)
    if column is None:
        return None
    gpus = np.flatnonzero(scores.members[kind] == column)
    if kind != "gpu":
        live = scores.round.rosters["gpu"].entities
        gpus = np.array([g for g in gpus.tolist() if live[g] is not None], np.intp)
    return FindingColumns(kind, column, gpus)


def _facts(
    scores: Scores, columns: FindingColumns, finding: Finding, onset: Onset | None
) -> dict[str, float]:
    facts = facts_of(scores.facts, columns.gpus)
    since_s = finding.since_s
    if onset is not None:
        facts["ofu_before"] = onset.before
        facts["began_s"] = onset.at_s
        since_s = min(since_s, onset.at_s) if onset.after < onset.before else since_s
    facts["gpus"] = float(len(columns.gpus))
    lost = gpu_hours_lost(facts, len(columns.gpus), finding.at_s - since_s)
    if lost is not None:
        facts["gpu_hours_lost"] = lost
    return facts


def _annotations(ranked: Sequence[RankedCause], onset: Onset | None) -> dict[str, str]:
    texts: dict[str, str] = {}
    likely = [cause for cause in ranked if cause.score >= LIKELY] or list(ranked[:1])
    if likely:
        texts["cause"] = "; and ".join(f"{c.title} ({c.id}, {c.score:.2f})" for c in likely[:2])
    else:
        texts["cause"] = NO_KNOWN_CAUSE
        texts["profile_next"] = PROFILE_NEXT
    if onset is not None:
        texts["began"] = onset.text
    return texts


def _mild(finding: Finding) -> Finding:
    """A finding whose cause is meant to be: worth knowing, nobody is woken for it."""
    note = {"legitimate": "its most likely cause is meant to be"}
    return replace(finding, severity="info", annotations={**finding.annotations, **note})


def _names(cause: Cause) -> list[str]:
    conditions = (one.condition for one in cause.evidence if one.condition is not None)
    nodes = (node for condition in conditions for node in walk(condition.root))
    return [node.name for node in nodes if isinstance(node, FlagCondition)]
