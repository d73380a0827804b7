"""The claims of each provider on a process.

Enters: a `ProcessSnapshot`. Leaves: its `Claim`s, of the providers in the settings. LSF, PBS, Ray,
torchrun and MPI name a job in the environment.
Sources: IBM Spectrum LSF "Environment variables set for job execution"; OpenPBS qsub(1);
torch.distributed.elastic; PMIx and Open MPI mpirun(1); Ray runtime context.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from otel_ofu.jobs import kubernetes, slurm
from otel_ofu.jobs.cgroups import Cgroup
from otel_ofu.jobs.kubernetes import Pods
from otel_ofu.jobs.owner import Claim
from otel_ofu.jobs.processes import ProcessSnapshot
from otel_ofu.jobs.settings import JobSettings
from otel_ofu.model.owner import JOB_ID

_NAMED = {
    "lsf": {"LSB_JOBNAME": "lsf.job.name", "LSB_QUEUE": "lsf.queue"},
    "pbs": {"PBS_JOBNAME": "pbs.job.name", "PBS_QUEUE": "pbs.queue"},
    "ray": {},
    "torchrun": {},
    "mpi": {},
}
_ID_ATTRIBUTE = {
    "lsf": "lsf.job.id",
    "pbs": "pbs.job.id",
    "ray": "ray.job.id",
    "torchrun": "torchelastic.run.id",
    "mpi": "mpi.job.id",
}
_IDS = {
    "lsf": ("LSB_JOBID", "LSB_JOBINDEX"),
    "pbs": ("PBS_JOBID",),
    "ray": ("RAY_JOB_ID",),
    "torchrun": ("TORCHELASTIC_RUN_ID", "MASTER_ADDR", "MASTER_PORT"),
    "mpi": ("PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "PMI_JOBID"),
}
LAUNCHERS = tuple(_IDS)
ENVIRONMENT = "environment"
_LOOPBACK = ("", "localhost", "127.0.0.1", "::1")


def _launcher_variables(provider: str) -> tuple[str, ...]:
    return (*_IDS[provider], *_NAMED[provider])


def _launcher_claim(provider: str, cgroup: Cgroup, environment: Mapping[str, str]) -> Claim | None:
    job = _job_id(provider, cgroup, environment)
    if not job:
        return None
    named = {
        attribute: environment[name]
        for name, attribute in _NAMED[provider].items()
        if name in environment
    }
    return Claim(provider, job, {_ID_ATTRIBUTE[provider]: job, **named})


def _job_id(provider: str, cgroup: Cgroup, environment: Mapping[str, str]) -> str:
    match provider:
        case "lsf":
            return _lsf(environment) or cgroup.lsf_job
        case "pbs":
            return cgroup.pbs_job or environment.get("PBS_JOBID", "")
        case "torchrun":
            return _torchrun(environment)
        case _:
            found = (environment[name] for name in _IDS[provider] if name in environment)
            return next(found, "")


def _lsf(environment: Mapping[str, str]) -> str:
    """An element of an array is 123[4]; LSF sets index 0 for a job that is none."""
    job, index = environment.get("LSB_JOBID", ""), environment.get("LSB_JOBINDEX", "0")
    return f"{job}[{index}]" if job and index != "0" else job


def _torchrun(environment: Mapping[str, str]) -> str:
    """Static rendezvous has the run id "none"; then the run is known by where its ranks meet."""
    run = environment.get("TORCHELASTIC_RUN_ID", "")
    if run != "none":
        return run
    address, port = environment.get("MASTER_ADDR", ""), environment.get("MASTER_PORT", "")
    return f"{address}:{port}" if port and address not in _LOOPBACK else ""


def variables(settings: JobSettings) -> frozenset[str]:
    """The only names that are ever read out of an environment."""
    names: set[str] = set()
    for provider in settings.providers:
        if provider == ENVIRONMENT:
            names.update(settings.environment)
        elif provider == slurm.NAME:
            names.update(slurm.variables(personal=settings.personal))
        elif provider in LAUNCHERS:
            names.update(_launcher_variables(provider))
    return frozenset(names)


def claims_of(snapshot: ProcessSnapshot, pods: Pods, settings: JobSettings) -> tuple[Claim, ...]:
    found = (_claim(provider, snapshot, pods, settings) for provider in settings.providers)
    return tuple(claim for claim in found if claim)


def _claim(
    provider: str, snapshot: ProcessSnapshot, pods: Pods, settings: JobSettings
) -> Claim | None:
    cgroup, environment = snapshot.cgroup, snapshot.environment
    match provider:
        case "environment":
            return _mapped(snapshot, settings)
        case "slurm":
            return slurm.claim(cgroup, environment, personal=settings.personal)
        case "k8s":
            return pods.claim(cgroup)
        case "container":
            return kubernetes.container_claim(cgroup)
        case _ if provider in LAUNCHERS:
            return _launcher_claim(provider, cgroup, environment)
        case _:
            return None


def _mapped(snapshot: ProcessSnapshot, settings: JobSettings) -> Claim | None:
    attributes: dict[str, str] = {}
    for attribute, value in _pairs(snapshot, settings):
        attributes.setdefault(attribute, value)
    job = attributes.pop(JOB_ID, "")
    return Claim(ENVIRONMENT, job, attributes) if job or attributes else None


def _pairs(snapshot: ProcessSnapshot, settings: JobSettings) -> Iterator[tuple[str, str]]:
    for name, attribute in settings.environment.items():
        if name in snapshot.environment:
            yield attribute, snapshot.environment[name]
