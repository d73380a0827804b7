"""One notification for each incident: findings of the same job with the same cause are one.

Enters: the findings of a round, with their causes. Leaves: those that are reported. A finding of a
job takes in those of its GPUs with the same cause; among GPUs of a job the first stands for the
others, with their number. What was reported as opened is reported to end exactly once, with the
last finding of the incident. A rule on trial (`shadow`) shares no incident with others: nobody is
notified of it.

What is left, and has causes of its own, gets the `incident` of a wider finding that covers it: that
of a node its GPUs and jobs, that of a job its GPUs. A notification of the wider finding is one of
all. A worse finding belongs to none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Protocol

import numpy as np
from msgspec.structs import replace

from otel_ofu.model import SEVERITIES, EntityKind, Finding
from otel_ofu.model.labels import ID_ATTRIBUTES
from otel_ofu.model.owner import JOB_ID
from otel_ofu.store import Store

TAKEN_IN = "taken_in"

_Entity = tuple[bool, EntityKind, str]
"""On trial or not, kind, id."""


class Nodes(Protocol):
    """Knows on which nodes a job's GPUs are."""

    def nodes_of(self, job_id: str) -> Collection[str]: ...


class StoreNodes:
    """As the store knows it."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def nodes_of(self, job_id: str) -> Collection[str]:
        with self._store.reading():
            job = self._store.slots("job").find(job_id)
            gpus, nodes = self._store.slots("gpu"), self._store.slots("node")
            membership = self._store.membership
            of_job = membership.jobs(len(gpus)) == (-2 if job is None else job)
            columns = np.unique(membership.nodes(len(gpus))[of_job])
            found = (nodes.entity(column) for column in columns.tolist() if column >= 0)
            return {node.id for node in found if node is not None}


class Containment:
    """Knows the findings that are reported and open."""

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes
        self._open: dict[str, Finding] = {}
        self._wide: dict[_Entity, dict[str, Finding]] = {}

    def adopt(self, findings: Iterable[Finding]) -> None:
        """Takes over what was open before a restart: nodes and jobs, which may cover others."""
        for finding in findings:
            if finding.entity is not None and finding.entity.kind != "gpu":
                self._keep(finding)

    def cover(self, reported: Iterable[Finding]) -> list[Finding]:
        """The findings of a round with their incidents, and those that a wider one takes in."""
        assigned = [self._assign(finding) for finding in reported]
        ended = {finding.fingerprint for finding in assigned if finding.kind == "resolved"}
        wide = any(f.kind == "opened" and _wide_entity(f) is not None for f in assigned)
        moved = list(self._moved(assigned, ended)) if wide or ended else []
        return [*_counted(assigned), *moved]

    def _assign(self, finding: Finding) -> Finding:
        if finding.kind == "resolved":
            known = self._drop(finding.fingerprint)
            return replace(finding, incident=known.incident) if known else finding
        finding = replace(finding, incident=self._incident_of(finding))
        self._keep(finding)
        return finding

    def _moved(self, assigned: Sequence[Finding], ended: Collection[str]) -> Iterator[Finding]:
        """Those that were open before and belong to another incident now."""
        at_s = max(finding.at_s for finding in assigned)
        for finding in list(self._open.values()):
            if finding.incident and finding.incident not in ended:
                continue
            incident = self._incident_of(finding)
            if incident != finding.incident:
                self._keep(replace(finding, incident=incident))
                if incident:
                    yield replace(
                        self._open[finding.fingerprint], kind="updated", reason=TAKEN_IN, at_s=at_s
                    )

    def _incident_of(self, finding: Finding) -> str:
        """The fingerprint of the widest finding that covers this one; empty for none."""
        if finding.entity is None:
            return self._incident_of_rule(finding)
        for entity in self._around(finding):
            for wide in self._wide.get(entity, {}).values():
                if wide.fingerprint != finding.fingerprint and not _is_worse(finding, wide):
                    return wide.fingerprint
        return ""

    def _incident_of_rule(self, summary: Finding) -> str:
        """A summary belongs where all others of its rule belong."""
        others = (f for f in self._open.values() if f.entity is not None)
        incidents = {f.incident for f in others if f.rule == summary.rule}
        return incidents.pop() if len(incidents) == 1 else ""

    def _around(self, finding: Finding) -> Iterator[_Entity]:
        """The entities around that of a finding, the widest first."""
        entity = finding.entity
        if entity is None or entity.kind == "node":
            return
        if entity.kind == "gpu":
            for kind in ("node", "job"):
                if name := entity.attributes.get(ID_ATTRIBUTES[kind]):
                    yield finding.shadow, kind, str(name)
            return
        nodes = self._nodes.nodes_of(entity.id)
        for node in nodes:
            key: _Entity = (finding.shadow, "node", node)
            # A node that is gone stops all of a job; another one explains no more than its part.
            if len(nodes) == 1 or any(map(_is_silence, self._wide.get(key, {}).values())):
                yield key

    def _keep(self, finding: Finding) -> None:
        self._drop(finding.fingerprint)
        self._open[finding.fingerprint] = finding
        if (entity := _wide_entity(finding)) is not None:
            self._wide.setdefault(entity, {})[finding.fingerprint] = finding

    def _drop(self, fingerprint: str) -> Finding | None:
        finding = self._open.pop(fingerprint, None)
        entity = _wide_entity(finding) if finding else None
        if entity is not None:
            self._wide[entity].pop(fingerprint)
            if not self._wide[entity]:
                del self._wide[entity]
        return finding


def _counted(assigned: Sequence[Finding]) -> list[Finding]:
    """`count` of what opened with others that it covers is their number as well."""
    within = Counter[str]()
    for finding in assigned:
        if finding.kind == "opened" and finding.incident:
            within[finding.incident] += finding.count
    return [
        replace(f, count=f.count + within[f.fingerprint])
        if f.kind == "opened" and within[f.fingerprint]
        else f
        for f in assigned
    ]


def _wide_entity(finding: Finding) -> _Entity | None:
    entity = finding.entity
    if entity is None or entity.kind == "gpu":
        return None
    name = entity.attributes.get(ID_ATTRIBUTES[entity.kind], entity.id)
    return finding.shadow, entity.kind, str(name)


def _is_worse(finding: Finding, than: Finding) -> bool:
    return SEVERITIES.index(finding.severity) > SEVERITIES.index(than.severity)


def _is_silence(finding: Finding) -> bool:
    return any(evidence.metric == "silent" for evidence in finding.evidence)


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
