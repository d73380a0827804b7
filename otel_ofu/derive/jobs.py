"""Jobs from their GPUs, within a node: one observation of each job in a round.

An attribute on which the GPUs of a job differ is not the job's. Enters: the observations of the
GPUs of a round, how shared ones are shared, what jobs report of themselves. Leaves: an
`Observation` of kind `job` for each job that holds a GPU.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

import numpy as np

from otel_ofu.derive.job_figures import (
    FORGET_S,
    GpuRows,
    JobFigureSettings,
    JobTotals,
    Reports,
    figures,
)
from otel_ofu.model import Attribute, Entity, Observation, Window

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


# Whether a kernel ran, the best witness first.
BUSY_KEYS = ("gpu_util", "gr_engine_active", "sm_active")


class JobAggregator:
    """Owned by one thread. `scope` is `node` where only one node's GPUs are seen."""

    def __init__(self, settings: JobFigureSettings | None = None, scope: Scope = "node") -> None:
        self._settings = settings or JobFigureSettings()
        self._scope = scope
        self._totals = JobTotals()
        self._counted_s: dict[str, float] = {}

    def aggregate(
        self,
        observations: Sequence[Observation],
        shares: Mapping[str, float] | None = None,
        reports: Reports | None = None,
    ) -> list[Observation]:
        """The jobs of one round.

        `shares`: by id of a GPU entity, the part in (0, 1] of the GPU that counts for its job; 1
        for one that is not there. `reports`: by job id, what jobs report of themselves.
        """
        by_job: dict[str, list[Observation]] = {}
        for seen in observations:
            job = seen.entity.attributes.get(JOB_ID)
            if job and seen.entity.kind == "gpu":
                by_job.setdefault(str(job), []).append(seen)
        if not by_job:
            return []
        rows = self._rows(list(by_job.values()), shares or {})
        found = figures(rows, len(by_job), self._settings)
        jobs = [(self._entity(job, gpus), _window(gpus)) for job, gpus in by_job.items()]
        result = self._totals.observations(jobs, found, reports)
        self._forget(max(window.end_s for _, window in jobs))
        return result

    def _entity(self, job: str, gpus: Sequence[Observation]) -> Entity:
        return job_entity(job, [seen.entity.attributes for seen in gpus], self._scope)

    def _rows(self, jobs: Sequence[Sequence[Observation]], shares: Mapping[str, float]) -> GpuRows:
        table = [
            (
                number,
                _share(shares, seen.entity.id),
                seen.window.length_s,
                self._fresh_s(seen),
                seen.values.get("ofu", math.nan),
                seen.values.get("flop_limit", math.nan),
                next((seen.values[k] for k in BUSY_KEYS if k in seen.values), math.nan),
            )
            for number, gpus in enumerate(jobs)
            for seen in gpus
        ]
        columns = np.array(table, np.float64).T
        return GpuRows(columns[0].astype(np.intp), *columns[1:])

    def _fresh_s(self, seen: Observation) -> float:
        """How much of a window was not counted before.

        None while a clock that was set back a little catches up.
        """
        id_, window = seen.entity.id, seen.window
        counted_s = self._counted_s.get(id_, window.start_s)
        if window.end_s < counted_s - FORGET_S:
            counted_s = window.start_s
        self._counted_s[id_] = max(counted_s, window.end_s)
        return max(0.0, window.end_s - max(window.start_s, counted_s))

    def _forget(self, now_s: float) -> None:
        self._totals.forget(now_s)
        since_s = now_s - FORGET_S
        self._counted_s = {id_: s for id_, s in self._counted_s.items() if s >= since_s}


def _share(shares: Mapping[str, float], id_: str) -> float:
    share = shares.get(id_, 1.0)
    if not 0 < share <= 1:
        raise ValueError(f"share of {id_}: {share:g}; allowed: above 0, at most 1")
    return share


def _window(gpus: Sequence[Observation]) -> Window:
    starts, ends = zip(*((g.window.start_s, g.window.end_s) for g in gpus), strict=True)
    return Window(min(starts), max(ends))
