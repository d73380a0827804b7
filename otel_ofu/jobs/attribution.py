"""From what was said to owners, by rules and without I/O.

Enters: for one device, the claims of each process and of the allocations, and the order of the
providers. Leaves: the device's `Owner`s, whose shares add up to 1.

A job is named by the first provider of the order that has an id; the others add attributes.

- A process is of an allocated job when one provider gives both the same id. One that no scheduler
  knows, on a device that is allocated to exactly one job, is of that job.
- What processes of one job do not agree on is left out.
- A source speaks of the device as a whole: of several owners it can mean none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from otel_ofu.jobs.kubernetes import NAME as K8S
from otel_ofu.jobs.kubernetes import is_nameless
from otel_ofu.jobs.owner import JOB_ID, JOB_SOURCE, MAPPING, SOURCE, Claim, Owner

Claims = Sequence[Claim]
_SCHEDULERS = frozenset(("slurm", K8S, "lsf", "pbs"))


@dataclass(slots=True)
class _Party:
    """Those who are about one job on one device."""

    claims: list[Claim] = field(default_factory=list)
    pids: list[int] = field(default_factory=list)

    def has(self, other: Claim) -> bool:
        return any(
            claim.job_id == other.job_id
            and (claim.provider == other.provider or MAPPING in (claim.provider, other.provider))
            for claim in self.claims
        )

    def schedulers(self) -> list[Claim]:
        return [claim for claim in self.claims if claim.provider in _SCHEDULERS]

    def is_placed(self) -> bool:
        """Whether schedulers have said all: a pod without a name may be any."""
        return bool(self.schedulers()) and not any(map(is_nameless, self.claims))

    def learn(self, job: _Party) -> None:
        """Takes over what an allocation says, but for what is known better."""
        own = {claim.provider for claim in self.claims if not is_nameless(claim)}
        self.claims += [c for c in job.claims if c.provider not in own or self.has(c)]


class Attribution:
    """`order`: the providers that are asked; the first outranks the others."""

    def __init__(self, order: Sequence[str]) -> None:
        self._rank = {provider: rank for rank, provider in enumerate(order)}

    def owners(self, processes: Mapping[int, Claims], allocations: Claims) -> tuple[Owner, ...]:
        """Of one device, in the order of job ids. A process that nobody knows has no owner."""
        whole = [claim for claim in allocations if claim.provider == SOURCE]
        allocated = _jobs([claim for claim in allocations if claim.provider != SOURCE])
        parties = [_Party(list(claims), [pid]) for pid, claims in sorted(processes.items())]
        jobs = self._grouped(_placed(parties, allocated))
        if whole and len(jobs) <= 1:
            jobs = jobs or [_Party()]
            jobs[0].claims += whole
        owners = (self._owner(job, 1 / len(jobs)) for job in jobs)
        return tuple(sorted(owners, key=lambda owner: (owner.job_id, owner.source)))

    def _grouped(self, parties: Iterable[_Party]) -> list[_Party]:
        """One for each job; those without a name are nobody's."""
        jobs: dict[tuple[str, str], _Party] = {}
        for party in parties:
            name = self._name(party)
            if name is not None:
                job = jobs.setdefault((name.provider, name.job_id), _Party())
                job.claims += party.claims
                job.pids += party.pids
        return list(jobs.values())

    def _name(self, party: _Party) -> Claim | None:
        known = (claim for claim in party.claims if claim.job_id)
        return min(known, key=self._place, default=None)

    def _place(self, claim: Claim) -> tuple[int, bool]:
        return self._rank[claim.provider], is_nameless(claim)

    def _owner(self, job: _Party, share: float) -> Owner:
        claims = sorted(job.claims, key=self._place)
        name = next(claim for claim in claims if claim.job_id)
        # A source names itself: scrape, demo, ...
        source = name.attributes.get(JOB_SOURCE, name.provider)
        attributes = {**_agreed(claims), JOB_ID: name.job_id, JOB_SOURCE: source}
        return Owner(name.job_id, source, attributes, tuple(sorted(job.pids)), share)


def _jobs(allocations: Claims) -> list[_Party]:
    """Two schedulers that each name one job speak of the same one: one runs inside the other."""
    jobs: dict[tuple[str, str], list[Claim]] = {}
    for claim in allocations:
        jobs.setdefault((claim.provider, claim.job_id), []).append(claim)
    providers = [provider for provider, _ in jobs]
    if len(set(providers)) == len(providers) > 0:
        return [_Party(list(allocations))]
    return _without_mapped([_Party(claims) for claims in jobs.values()])


def _without_mapped(jobs: list[_Party]) -> list[_Party]:
    """A mapped job that a scheduler knows as well is that one."""
    known = [job for job in jobs if job.claims[0].provider != MAPPING]
    mapped = [job for job in jobs if job.claims[0].provider == MAPPING]
    return known + [job for job in mapped if not any(k.has(job.claims[0]) for k in known)]


def _placed(parties: Sequence[_Party], jobs: Sequence[_Party]) -> Iterator[_Party]:
    """Processes that know what was allocated to them, and jobs that no process is of."""
    idle = list(jobs)
    for party in parties:
        job = _allocated_to(party, jobs)
        if job:
            party.learn(job)
            idle = [other for other in idle if other is not job]
            yield party
        elif not _is_of_one(party, jobs):
            yield party
    yield from idle


def _allocated_to(party: _Party, jobs: Sequence[_Party]) -> _Party | None:
    """The allocated job that a process is of, as far as that can be told."""
    for job in jobs:
        if any(claim.job_id and job.has(claim) for claim in party.claims):
            return job
    return jobs[0] if len(jobs) == 1 and not party.is_placed() else None


def _is_of_one(party: _Party, jobs: Sequence[_Party]) -> bool:
    """Whether a process is of one of several pods here, and nothing says of which."""
    pods = any(claim.provider == K8S for job in jobs for claim in job.claims)
    schedulers = party.schedulers()
    return pods and bool(schedulers) and all(map(is_nameless, schedulers))


def _agreed(claims: Claims) -> dict[str, str]:
    """What the first provider that speaks of an attribute says, if it says one thing."""
    told: dict[str, str] = {}
    for _, of_one in groupby(claims, key=lambda claim: claim.provider):
        said: dict[str, set[str]] = {}
        for claim in of_one:
            for name, value in claim.attributes.items():
                said.setdefault(name, set()).add(value)
        for name, values in said.items():
            told.setdefault(name, values.pop() if len(values) == 1 else "")
    return {name: value for name, value in told.items() if value}
