"""From claims to owners, by rules and without I/O.

Enters: for one device, the claims of each process and of the allocations, and the order of the
providers. Leaves: the device's `JobOwner`s, with their shares.

A job is named by the first provider of the order that has an id; the others add attributes.

- A process is of an allocated job when one provider gives both the same id. One that no scheduler
  knows, on a device that is allocated to exactly one job, is of that job.
- What processes of one job do not agree on is left out.
- A source knows the owners of the device, not the processes. Its owners are the jobs of the same
  id. One alone is the job that is there alone. Others of a source that names a job which is there
  are owners too; of a source that names none of them, nothing is known to be true.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from otel_ofu.jobs.kubernetes import NAME as K8S
from otel_ofu.jobs.kubernetes import is_nameless
from otel_ofu.jobs.owner import MAPPING, SOURCE, Claim, JobOwner
from otel_ofu.model.owner import JOB_ID, JOB_SOURCE, even_out

Claims = Sequence[Claim]
_SCHEDULERS = frozenset(("slurm", K8S, "lsf", "pbs"))
_PLAIN_IDS = frozenset((MAPPING, SOURCE))
"""Providers that pass on the id of a job without the name of its scheduler."""


@dataclass(slots=True)
class _JobClaims:
    """The claims and processes of one job on one device."""

    claims: list[Claim] = field(default_factory=list)
    pids: list[int] = field(default_factory=list)

    def has(self, other: Claim) -> bool:
        return any(
            claim.ids & other.ids
            and (claim.provider == other.provider or {claim.provider, other.provider} & _PLAIN_IDS)
            for claim in self.claims
        )

    def schedulers(self) -> list[Claim]:
        return [claim for claim in self.claims if claim.provider in _SCHEDULERS]

    def is_allocated(self) -> bool:
        """Whether schedulers name its job: a pod without a name may be any."""
        return bool(self.schedulers()) and not any(map(is_nameless, self.claims))

    def share(self) -> float | None:
        """The part of the device that is stated for it."""
        return next((claim.share for claim in self.claims if claim.share is not None), None)

    def learn(self, job: _JobClaims) -> None:
        """Takes over the claims of an allocation, but for what is known better."""
        own = {claim.provider for claim in self.claims if not is_nameless(claim)}
        self.claims += [c for c in job.claims if c.provider not in own or self.has(c)]


class Attribution:
    """`order`: the providers that count; the first outranks the others."""

    def __init__(self, order: Sequence[str]) -> None:
        self._rank = {provider: rank for rank, provider in enumerate(order)}

    def owners(self, processes: Mapping[int, Claims], allocations: Claims) -> tuple[JobOwner, ...]:
        """Of one device, in the order of job ids. A process that no provider knows has no owner."""
        whole = [claim for claim in allocations if claim.provider == SOURCE]
        allocated = _jobs([claim for claim in allocations if claim.provider != SOURCE])
        candidates = [_JobClaims(list(claims), [pid]) for pid, claims in sorted(processes.items())]
        jobs = self._grouped(_allocated(candidates, allocated))
        jobs += _of_source(jobs, whole)
        shares = even_out([job.share() for job in jobs])
        owners = (self._owner(job, share) for job, share in zip(jobs, shares, strict=True))
        return tuple(sorted(owners, key=lambda owner: (owner.job_id, owner.source)))

    def _grouped(self, candidates: Iterable[_JobClaims]) -> list[_JobClaims]:
        """One for each job; those without a name have no owner."""
        jobs: dict[tuple[str, str], _JobClaims] = {}
        for candidate in candidates:
            name = self._name(candidate)
            if name is not None:
                job = jobs.setdefault((name.provider, name.job_id), _JobClaims())
                job.claims += candidate.claims
                job.pids += candidate.pids
        return list(jobs.values())

    def _name(self, candidate: _JobClaims) -> Claim | None:
        known = (claim for claim in candidate.claims if claim.job_id)
        return min(known, key=self._order, default=None)

    def _order(self, claim: Claim) -> tuple[int, bool]:
        return self._rank[claim.provider], is_nameless(claim)

    def _owner(self, job: _JobClaims, share: float) -> JobOwner:
        claims = sorted(job.claims, key=self._order)
        name = next(claim for claim in claims if claim.job_id)
        # A source names itself: scrape, demo, ...
        source = name.attributes.get(JOB_SOURCE, name.provider)
        attributes = {**_agreed(claims), JOB_ID: name.job_id, JOB_SOURCE: source}
        return JobOwner(name.job_id, source, attributes, tuple(sorted(job.pids)), share)


def _jobs(allocations: Claims) -> list[_JobClaims]:
    """Two schedulers that each name one job speak of the same one: one runs inside the other."""
    jobs: dict[tuple[str, str], list[Claim]] = {}
    for claim in allocations:
        jobs.setdefault((claim.provider, claim.job_id), []).append(claim)
    providers = [provider for provider, _ in jobs]
    if len(set(providers)) == len(providers) > 0:
        return [_JobClaims(list(allocations))]
    return _without_mapped([_JobClaims(claims) for claims in jobs.values()])


def _without_mapped(jobs: list[_JobClaims]) -> list[_JobClaims]:
    """A mapped job that a scheduler knows as well is that one."""
    known = [job for job in jobs if job.claims[0].provider != MAPPING]
    mapped = [job for job in jobs if job.claims[0].provider == MAPPING]
    return known + [job for job in mapped if not any(k.has(job.claims[0]) for k in known)]


def _of_source(jobs: Sequence[_JobClaims], whole: Claims) -> list[_JobClaims]:
    """Gives the jobs what the source knows of them; leaves the jobs that it alone knows."""
    if len(whole) == len(jobs) == 1:
        jobs[0].claims += whole
        return []
    others = []
    for claim in whole:
        job = next((job for job in jobs if job.has(claim)), None)
        if job:
            job.claims.append(claim)
        else:
            others.append(_JobClaims([claim]))
    return others if not jobs or len(others) < len(whole) else []


def _allocated(
    candidates: Sequence[_JobClaims], jobs: Sequence[_JobClaims]
) -> Iterator[_JobClaims]:
    """Processes that know what was allocated to them, and jobs that no process is of."""
    idle = list(jobs)
    for candidate in candidates:
        job = _allocated_to(candidate, jobs)
        if job:
            candidate.learn(job)
            idle = [other for other in idle if other is not job]
            yield candidate
        elif not _is_of_one(candidate, jobs):
            yield candidate
    yield from idle


def _allocated_to(candidate: _JobClaims, jobs: Sequence[_JobClaims]) -> _JobClaims | None:
    """The allocated job that a process is of, as far as that is known."""
    for job in jobs:
        if any(claim.job_id and job.has(claim) for claim in candidate.claims):
            return job
    return jobs[0] if len(jobs) == 1 and not candidate.is_allocated() else None


def _is_of_one(candidate: _JobClaims, jobs: Sequence[_JobClaims]) -> bool:
    """Whether a process is of one of several pods here, and nothing shows of which."""
    pods = any(claim.provider == K8S for job in jobs for claim in job.claims)
    schedulers = candidate.schedulers()
    return pods and bool(schedulers) and all(map(is_nameless, schedulers))


def _agreed(claims: Claims) -> dict[str, str]:
    """For each attribute what the first provider that has it gives, if that is one value."""
    agreed: dict[str, str] = {}
    for _, of_one in groupby(claims, key=lambda claim: claim.provider):
        given: dict[str, set[str]] = {}
        for claim in of_one:
            for name, value in claim.attributes.items():
                given.setdefault(name, set()).add(value)
        for name, values in given.items():
            agreed.setdefault(name, values.pop() if len(values) == 1 else "")
    return {name: value for name, value in agreed.items() if value}
