"""Slurm: its jobs by a process and by the node's cgroups.

Enters: a `Cgroup` and the listed variables. Leaves: a `Claim`, and the GPUs that are allocated.
Each component of a heterogeneous job has an id and cgroups of its own, while the processes of all
have the environment of the first, whose id is that of the whole job.
Source: Slurm srun(1), sbatch(1) output environment; SLUID cgroups since 26.05; measured with 22.05.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from otel_ofu.jobs.cgroups import Cgroup
from otel_ofu.jobs.owner import Claim

NAME = "slurm"
_ATTRIBUTES = {
    "SLURM_JOB_NAME": "slurm.job.name",
    "SLURM_JOB_PARTITION": "slurm.partition",
    "SLURM_CLUSTER_NAME": "slurm.cluster.name",
    "SLURM_ARRAY_JOB_ID": "slurm.array.job.id",
    "SLURM_ARRAY_TASK_ID": "slurm.array.task.id",
}
_PERSONAL = {"SLURM_JOB_USER": "slurm.user", "SLURM_JOB_ACCOUNT": "slurm.account"}
_PARTITION = "slurm.partition"
_MOST_COMPONENTS = 128
"""Source: MAX_HET_JOB_COMPS of Slurm."""
_HET_ID = "SLURM_JOB_ID_HET_GROUP_{}"
_HET_PARTITION = "SLURM_JOB_PARTITION_HET_GROUP_{}"
_WHOLE_JOB_STEPS = ("batch", "interactive")


def variables(*, personal: bool) -> tuple[str, ...]:
    own = ("SLURM_JOB_ID", "SLURM_JOBID", "SLURM_JOB_SLUID", "SLURM_JOB_GPUS", "SLURM_STEP_GPUS")
    of_components = [
        name.format(number)
        for name in (_HET_ID, _HET_PARTITION)
        for number in range(_MOST_COMPONENTS)
    ]
    return (*own, *_ATTRIBUTES, *(_PERSONAL if personal else ()), *of_components)


def claim(cgroup: Cgroup, environment: Mapping[str, str], *, personal: bool) -> Claim | None:
    """The cgroup outranks the environment, which may have come along from another job."""
    job = cgroup.slurm_job or _job_of(cgroup, environment)
    sluid = cgroup.sluid or (environment.get("SLURM_JOB_SLUID", "") if job else "")
    if not job and not sluid:
        return None
    attributes = {"slurm.job.id": job, "slurm.job.sluid": sluid}
    component = _component(job, environment)
    if job and (component or _environment_job(environment) == job):
        names = {**_ATTRIBUTES, **(_PERSONAL if personal else {})}
        attributes |= {names[name]: value for name, value in environment.items() if name in names}
    if component:
        attributes |= component.attributes(cgroup, environment)
    whole = component.het_id if component else job or sluid
    known = {name: value for name, value in attributes.items() if value}
    return Claim(NAME, whole, known, also_id=job)


def contradicts(cgroup: Cgroup, environment: Mapping[str, str]) -> bool:
    """Whether the environment names another job than the cgroup."""
    job = _environment_job(environment)
    if not job or cgroup.slurm_job in ("", job):
        return False
    return _component(cgroup.slurm_job, environment) is None


@dataclass(frozen=True, slots=True)
class _Component:
    """A part of a heterogeneous job, whose id is that of its first component."""

    het_id: str
    offset: int

    def attributes(self, cgroup: Cgroup, environment: Mapping[str, str]) -> dict[str, str]:
        """Of which component a process is, its cgroup alone shows."""
        found = {"slurm.job.het.id": self.het_id}
        if cgroup.slurm_job:
            partition = environment.get(_HET_PARTITION.format(self.offset), "")
            found |= {"slurm.job.het.offset": str(self.offset), _PARTITION: partition}
        return found


def _component(job: str, environment: Mapping[str, str]) -> _Component | None:
    """Which component `job` is, unless the environment came along from another job."""
    ids = [environment.get(_HET_ID.format(number), "") for number in range(_MOST_COMPONENTS)]
    if not job or job not in ids or _environment_job(environment) != ids[0]:
        return None
    return _Component(ids[0], ids.index(job))


def gpus(cgroup: Cgroup, environment: Mapping[str, str]) -> tuple[str, ...]:
    """The node's numbers (or UUIDs) of the GPUs that a step, or the whole job, was given here.

    A step inherits SLURM_JOB_GPUS from the batch script, maybe from another node; there it means
    nothing.
    """
    whole = cgroup.step in _WHOLE_JOB_STEPS
    text = environment.get("SLURM_JOB_GPUS" if whole else "SLURM_STEP_GPUS", "")
    return tuple(part for part in text.split(",") if part)


def _environment_job(environment: Mapping[str, str]) -> str:
    return environment.get("SLURM_JOB_ID") or environment.get("SLURM_JOBID", "")


def _job_of(cgroup: Cgroup, environment: Mapping[str, str]) -> str:
    """The job id of the environment, unless the cgroup is that of another SLUID."""
    sluid = environment.get("SLURM_JOB_SLUID", cgroup.sluid)
    return "" if cgroup.sluid not in ("", sluid) else _environment_job(environment)
