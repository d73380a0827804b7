"""One notification for each incident: findings of the same job with the same cause are one.

Enters: the findings of a round, with their causes. Leaves: those that are reported. A finding of a
job takes in those of its GPUs with the same cause; among GPUs of a job the first stands for the
others, with their number. What was reported as opened is reported to end exactly once, with the
last finding of the incident. What is left, and has causes of its own, belongs to that of a wider
entity (`containment`). A rule on trial (`shadow`) shares no incident with others: nobody is
notified of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean

from msgspec.structs import replace

from otel_ofu.diagnose.containment import TAKEN_IN, Containment, Nodes
from otel_ofu.model import EntityKind, Finding

JOB_ID = "ofu.job.id"
Key = tuple[bool, str, str]
"""On trial or not, the job, the cause."""

_KINDS: Sequence[EntityKind] = ("node", "job", "gpu")

_JOINED: Mapping[str, Callable[[Sequence[float]], float]] = {
    "gpus": sum,
    "gpu_hours_lost": sum,
    "began_s": min,
}


@dataclass(slots=True)
class _Incident:
    """`head` is what was reported of it; `open` the findings of it, by fingerprint."""

    head: Finding
    open: dict[str, Finding] = field(default_factory=dict)
    rules: set[str] = field(default_factory=set)


class Incidents:
    """Knows what is open since the start of the process; what it does not know it lets through."""

    def __init__(self, nodes: Nodes) -> None:
        self._containment = Containment(nodes)
        self._incidents: dict[Key, _Incident] = {}
        self._key_of: dict[str, Key] = {}

    def report(self, findings: Iterable[Finding]) -> list[Finding]:
        """What to report of the findings of one round: ends first, then nodes, jobs and GPUs."""
        round_ = list(findings)
        ends = [one for one in round_ if one.kind == "resolved"]
        others = [one for one in round_ if one.kind != "resolved"]
        reported = [end for one in ends for end in self._end(one)]
        for one in sorted(others, key=_order):
            reported += self._open(one)
        return self._containment.cover([self._counted(one) for one in reported])

    def adopt(self, findings: Iterable[Finding]) -> None:
        """Takes over the findings that were open before a restart."""
        self._containment.adopt(findings)

    def _open(self, one: Finding) -> Iterator[Finding]:
        key = self._key_for(one)
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
            if _breadth(one) < _breadth(known.head):
                yield replace(known.head, kind="resolved", at_s=one.at_s, reason=TAKEN_IN)
                known.head = one
                yield one
        self._key_of[one.fingerprint] = key

    def _key_for(self, one: Finding) -> Key | None:
        """The incident that a finding belongs to.

        A GPU belongs to that of its job when that names its cause as well, or when it has none of
        its own; and the summary of a rule whose findings are all of one incident to that.
        """
        key = _key(one)
        if key in self._incidents:
            return key
        if one.entity is None:
            keys = {k for k, i in self._incidents.items() if one.rule in i.rules}
        else:
            of_job = (one.shadow, str(one.entity.attributes.get(JOB_ID, "")))
            known = ((k, i.head) for k, i in self._incidents.items() if k[:2] == of_job)
            keys = {k for k, head in known if not _breadth(head) and _covers(head, one)}
        return keys.pop() if len(keys) == 1 else key

    def _end(self, one: Finding) -> Iterator[Finding]:
        key = self._key_of.pop(one.fingerprint, None)
        if key is None:
            yield one
            return
        incident = self._incidents[key]
        incident.open.pop(one.fingerprint, None)
        if not incident.open:
            del self._incidents[key]
            yield replace(incident.head, kind="resolved", at_s=one.at_s, reason=one.reason)

    def _counted(self, one: Finding) -> Finding:
        """`count` of an incident is how many findings it is made of, its numbers are of all."""
        key = self._key_of.get(one.fingerprint)
        if key is None or one.kind != "opened":
            return one
        incident = self._incidents[key]
        facts = facts_of_all(incident.open.values()) if _breadth(one) == 1 else one.facts
        incident.head = replace(one, facts=facts)
        return replace(incident.head, count=max(one.count, len(incident.open)))


def facts_of_all(findings: Iterable[Finding]) -> dict[str, float]:
    """Sums and means of the facts of GPUs, each GPU once; the earliest beginning."""
    found: dict[str, list[float]] = {}
    each = {d.entity.id: d.facts for d in findings if d.entity is not None}
    for facts in each.values():
        for name, value in facts.items():
            found.setdefault(name, []).append(value)
    return {name: _JOINED.get(name, fmean)(values) for name, values in found.items()}


def _order(one: Finding) -> int:
    """The wider entity first: what it covers has to know of it."""
    return 3 if one.entity is None else _KINDS.index(one.entity.kind)


def _breadth(one: Finding) -> int:
    """Jobs and nodes stand for their GPUs, and those for summaries, which come last."""
    if one.entity is None:
        return 2
    return 1 if one.entity.kind == "gpu" else 0


def _covers(head: Finding, one: Finding) -> bool:
    return not one.causes or one.causes[0].id in {cause.id for cause in head.causes}


def _key(one: Finding) -> Key | None:
    """None for what stands alone."""
    if one.entity is None or not one.causes:
        return None
    job = one.entity.attributes.get(JOB_ID)
    return (one.shadow, str(job), one.causes[0].id) if job else None
