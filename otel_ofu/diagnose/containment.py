"""What a wider finding covers: a node its GPUs and jobs, a job its GPUs.

Enters: the findings that are reported in a round, nodes before jobs before GPUs. Leaves: the same,
with the `incident` that they belong to: a notification of the wider finding is one of all. A worse
finding, and one of a rule on trial, belongs to none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Protocol

import numpy as np
from msgspec.structs import replace

from otel_ofu.model import SEVERITIES, EntityKind, Finding
from otel_ofu.model.labels import ID_ATTRIBUTES
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
