"""Jobs from their GPUs, within a node: one observation of each job in a round.

An attribute on which the GPUs of a job differ is not the job's. Enters: the observations of the
GPUs of a round, how shared ones are shared, what jobs report of themselves. Leaves: an
`Observation` of kind `job` for each job that holds a GPU.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Literal

import numpy as np

from otel_ofu.derive.gpu_time import ALLOCATED, KEPT_S
from otel_ofu.derive.job_figures import TOTALS, GpuRows, Reports, figures, observations, total
from otel_ofu.model import Attribute, Entity, Observation, Window
from otel_ofu.store import JobTimeSums

JOB_ID = "ofu.job.id"
HOST = "host.name"
SCOPE = "ofu.job.scope"
MIXED = "mixed"

Scope = Literal["node", "fleet"]

# What a GPU has of its owner; `ofu.gpu.*` and `hw.*` are its own.
_OF_A_JOB = (
    "ofu.job.",
    "slurm.",
    "k8s.",
    "lsf.",
    "pbs.",
    "ray.",
    "torchelastic.",
    "mpi.",
    "service.",
    "deployment.",
    "cloud.",
)
_SUMMARISED = ("ofu.gpu.sku", "ofu.precision")


def job_entity(job: str, gpus: Iterable[Mapping[str, Attribute]], scope: Scope) -> Entity:
    """The job of some GPUs. An attribute on which they differ, such as the pod, is not the job's.

    `ofu.gpu.sku` and `ofu.precision` are `mixed` where the GPUs differ; `host.name` is there for
    the part of a job that is on one node.
    """
    every = list(gpus)
    first = every[0] if every else {}
    wanted = [*(n for n in first if n.startswith(_OF_A_JOB)), *([HOST] if scope == "node" else [])]
    attributes = {
        name: first[name]
        for name in wanted
        if name in first and all(gpu.get(name) == first[name] for gpu in every)
    }
    for name in _SUMMARISED:
        found = {gpu[name] for gpu in every if name in gpu}
        if found:
            attributes[name] = found.pop() if len(found) == 1 else MIXED
    return Entity("job", job, {**attributes, JOB_ID: job, SCOPE: scope})


class JobAggregator:
    """Owned by one thread. `scope` is `node` where only one node's GPUs are seen."""

    def __init__(self, times: JobTimeSums | None = None, scope: Scope = "node") -> None:
        self._scope = scope
        self._times = times or JobTimeSums()
        self._ended: dict[str, Entity] = {}

    def aggregate(
        self,
        seen: Sequence[Observation],
        shares: Mapping[str, float] | None = None,
        reports: Reports | None = None,
    ) -> list[Observation]:
        """The jobs of one round, and the totals of those that ended a few minutes ago.

        `shares`: by id of a GPU entity, the part in (0, 1] of the GPU that counts for its job; 1
        for one that is not there. `reports`: by job id, what jobs report of themselves.
        """
        by_job: dict[str, list[Observation]] = {}
        for each in seen:
            job = each.entity.attributes.get(JOB_ID)
            if job and each.entity.kind == "gpu":
                by_job.setdefault(str(job), []).append(each)
        jobs = [(self._entity(job, gpus), _window(gpus)) for job, gpus in by_job.items()]
        self._count([each for gpus in by_job.values() for each in gpus])
        ended = self._totals_of_ended(jobs, seen)
        if not jobs:
            return ended
        found = figures(_rows(list(by_job.values()), shares or {}), len(by_job))
        return [*map(self._with_totals, observations(jobs, found, reports or {})), *ended]

    def _entity(self, job: str, gpus: Sequence[Observation]) -> Entity:
        return job_entity(job, [seen.entity.attributes for seen in gpus], self._scope)

    def _count(self, gpus: Sequence[Observation]) -> None:
        counted = [each for each in gpus if ALLOCATED in each.values]
        if counted:
            keys = list(TOTALS)
            table = [[each.values.get(key, math.nan) for key in keys] for each in counted]
            times_s = np.array([each.window.end_s for each in counted])
            entities = [each.entity for each in counted]
            self._times.put(entities, keys, times_s, np.array(table, np.float64))

    def _with_totals(self, job: Observation) -> Observation:
        time = self._times.totals_of(job.entity.id, TOTALS)
        if time is None:
            return job
        sums = total(job.entity, job.window, time)
        return replace(job, values={**job.values, **sums.values}, starts_s=sums.starts_s)

    def _totals_of_ended(
        self, jobs: Sequence[tuple[Entity, Window]], seen: Sequence[Observation]
    ) -> list[Observation]:
        """What was there in the last round stays for as long as the counters of its GPUs do."""
        living = {entity.id: entity for entity, _ in jobs}
        self._ended |= living
        now_s = max((each.window.end_s for each in seen), default=0.0)
        result = []
        for id_, entity in list(self._ended.items()):
            time = self._times.totals_of(id_, TOTALS)
            if time is None or not 0 <= now_s - time.seen_s <= KEPT_S:
                del self._ended[id_]
            elif id_ not in living:
                result.append(total(entity, Window(now_s, now_s), time))
        return result


def _rows(jobs: Sequence[Sequence[Observation]], shares: Mapping[str, float]) -> GpuRows:
    table = [
        (
            number,
            _share(shares, seen.entity.id),
            seen.window.length_s,
            seen.values.get("ofu", math.nan),
            seen.values.get("flop_limit", math.nan),
        )
        for number, gpus in enumerate(jobs)
        for seen in gpus
    ]
    columns = np.array(table, np.float64).T
    return GpuRows(columns[0].astype(np.intp), *columns[1:])


def _share(shares: Mapping[str, float], id_: str) -> float:
    share = shares.get(id_, 1.0)
    if not 0 < share <= 1:
        raise ValueError(f"share of {id_}: {share:g}; allowed: above 0, at most 1")
    return share


def _window(gpus: Sequence[Observation]) -> Window:
    starts, ends = zip(*((g.window.start_s, g.window.end_s) for g in gpus), strict=True)
    return Window(min(starts), max(ends))
