"""One message for each incident: findings of the same job with the same cause are one.

Enters: the diagnoses of a round. Leaves: those that are to be told. A finding of a job takes in
those of its GPUs; among GPUs of a job the first speaks for the others, with their number. What was
told as opened is told exactly one end, when the last finding of the incident ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean

from otel_ofu.model import Diagnosis
from otel_ofu.rules.lifecycle.change import Change

JOB_ID = "ofu.job.id"
TAKEN_IN = "taken_in"

Key = tuple[str, str]

_JOINED: Mapping[str, Callable[[Sequence[float]], float]] = {
    "gpus": sum,
    "gpu_hours_lost": sum,
    "began_s": min,
}


@dataclass(slots=True)
class _Incident:
    """`told` is what speaks for it; `open` the findings that belong to it, by fingerprint."""

    told: Diagnosis
    open: dict[str, Diagnosis] = field(default_factory=dict)
    rules: set[str] = field(default_factory=set)


class Incidents:
    """Knows what is open since the start of the process; what it does not know it lets through."""

    def __init__(self) -> None:
        self._incidents: dict[Key, _Incident] = {}
        self._key_of: dict[str, Key] = {}

    def tell(self, diagnoses: Iterable[Diagnosis]) -> list[Diagnosis]:
        """What is to be told of the diagnoses of one round: ends first, then jobs, then GPUs."""
        round_ = list(diagnoses)
        ends = [d for d in round_ if d.kind == "resolved"]
        others = [d for d in round_ if d.kind != "resolved"]
        told = [end for d in ends for end in self._end(d)]
        for one in sorted(others, key=_breadth):
            told += self._open(one)
        return [self._counted(one) for one in told]

    def _open(self, one: Diagnosis) -> Iterator[Diagnosis]:
        key = self._place(one)
        if key is None or one.kind == "updated":
            if one.fingerprint not in self._key_of:
                yield one
            return
        known = self._incidents.get(key)
        if known is None:
            self._incidents[key] = _Incident(one, {one.fingerprint: one}, {one.rule})
            yield one
        else:
            known.open[one.fingerprint] = one
            known.rules.add(one.rule)
            if _breadth(one) < _breadth(known.told):
                yield replace(known.told, kind="resolved", at_s=one.at_s, reason=TAKEN_IN)
                known.told = one
                yield one
        self._key_of[one.fingerprint] = key

    def _place(self, one: Diagnosis) -> Key | None:
        """The incident that a finding belongs to.

        A GPU belongs to what is told of its job when that names its cause as well, or when it has
        none of its own; and the summary of a rule whose findings are all of one incident to that.
        """
        key = _key(one)
        if key in self._incidents:
            return key
        if one.entity is None:
            keys = {k for k, i in self._incidents.items() if one.rule in i.rules}
        else:
            job = str(one.entity.attributes.get(JOB_ID, ""))
            mine = ((k, i.told) for k, i in self._incidents.items() if k[0] == job)
            keys = {k for k, told in mine if not _breadth(told) and _covers(told, one)}
        return keys.pop() if len(keys) == 1 else key

    def _end(self, one: Diagnosis) -> Iterator[Diagnosis]:
        key = self._key_of.pop(one.fingerprint, None)
        if key is None:
            yield one
            return
        incident = self._incidents[key]
        incident.open.pop(one.fingerprint, None)
        if not incident.open:
            del self._incidents[key]
            yield replace(incident.told, kind="resolved", at_s=one.at_s, reason=one.reason)

    def _counted(self, one: Diagnosis) -> Diagnosis:
        """`count` of an incident is how many findings it is made of, its numbers are of all."""
        key = self._key_of.get(one.fingerprint)
        if key is None or one.kind != "opened":
            return one
        incident = self._incidents[key]
        facts = facts_of_all(incident.open.values()) if _breadth(one) == 1 else one.facts
        incident.told = replace(one, facts=facts)
        return replace(incident.told, count=max(one.count, len(incident.open)))


class Reporter:
    """Between engine and routes: `take` as the engine's `emit`, `flush` after each of its ticks."""

    def __init__(
        self, diagnose: Callable[[Change], Diagnosis], tell: Callable[[Diagnosis], None]
    ) -> None:
        self._diagnose = diagnose
        self._tell = tell
        self._incidents = Incidents()
        self._changes: list[Change] = []

    def take(self, change: Change) -> None:
        self._changes.append(change)

    def flush(self) -> Sequence[Diagnosis]:
        """Diagnoses what the round brought and tells it; what was told."""
        changes, self._changes = self._changes, []
        told = self._incidents.tell([self._diagnose(change) for change in changes])
        for one in told:
            self._tell(one)
        return told


def facts_of_all(findings: Iterable[Diagnosis]) -> dict[str, float]:
    """Sums and means of the facts of GPUs, each GPU once; the earliest beginning."""
    found: dict[str, list[float]] = {}
    each = {d.entity.id: d.facts for d in findings if d.entity is not None}
    for facts in each.values():
        for name, value in facts.items():
            found.setdefault(name, []).append(value)
    return {name: _JOINED.get(name, fmean)(values) for name, values in found.items()}


def _breadth(one: Diagnosis) -> int:
    """Jobs and nodes speak for their GPUs, and those for summaries, which stand last."""
    if one.entity is None:
        return 2
    return 1 if one.entity.kind == "gpu" else 0


def _covers(told: Diagnosis, one: Diagnosis) -> bool:
    return not one.causes or one.causes[0].id in {cause.id for cause in told.causes}


def _key(one: Diagnosis) -> Key | None:
    """The job and the cause; None for what stands alone."""
    if one.entity is None or not one.causes:
        return None
    job = one.entity.attributes.get(JOB_ID)
    return (str(job), one.causes[0].id) if job else None
