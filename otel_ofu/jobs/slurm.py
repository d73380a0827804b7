"""Slurm: its jobs by a process and by the node's cgroups.

Enters: a `Cgroup` and the listed variables. Leaves: a `Claim`, and the GPUs that are allocated.
Source: Slurm srun(1), sbatch(1) output environment; SLUID cgroups since 26.05.
"""

from __future__ import annotations

from collections.abc import Mapping

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
_WHOLE_JOB_STEPS = ("batch", "interactive")


def variables(*, personal: bool) -> tuple[str, ...]:
    own = ("SLURM_JOB_ID", "SLURM_JOBID", "SLURM_JOB_SLUID", "SLURM_JOB_GPUS", "SLURM_STEP_GPUS")
    return (*own, *_ATTRIBUTES, *(_PERSONAL if personal else ()))


def claim(cgroup: Cgroup, environment: Mapping[str, str], *, personal: bool) -> Claim | None:
    """The cgroup outranks the environment, which may have come along from another job."""
    job = cgroup.slurm_job or _job_of(cgroup, environment)
    sluid = cgroup.sluid or (environment.get("SLURM_JOB_SLUID", "") if job else "")
    if not job and not sluid:
        return None
    attributes = {"slurm.job.id": job, "slurm.job.sluid": sluid}
    if job and _environment_job(environment) == job:
        names = {**_ATTRIBUTES, **(_PERSONAL if personal else {})}
        attributes |= {names[name]: value for name, value in environment.items() if name in names}
    return Claim(NAME, job or sluid, {name: value for name, value in attributes.items() if value})


def contradicts(cgroup: Cgroup, environment: Mapping[str, str]) -> bool:
    """Whether the environment names another job than the cgroup."""
    job = _environment_job(environment)
    return bool(job) and cgroup.slurm_job not in ("", job)


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
