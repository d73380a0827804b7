"""LSF, PBS, Ray, torchrun, MPI: schedulers and launchers that name a job in the environment.

Enters: a `Place` and the listed variables. Leaves: `Claim`s.
Sources: IBM Spectrum LSF "Environment variables set for job execution"; OpenPBS qsub(1);
torch.distributed.elastic; PMIx and Open MPI mpirun(1); Ray runtime context.
"""

from __future__ import annotations

from collections.abc import Mapping

from otel_ofu.jobs.cgroups import Place
from otel_ofu.jobs.owner import Claim

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
NAMES = tuple(_IDS)
_LOOPBACK = ("", "localhost", "127.0.0.1", "::1")


def variables(provider: str) -> tuple[str, ...]:
    return (*_IDS[provider], *_NAMED[provider])


def claim(provider: str, place: Place, environment: Mapping[str, str]) -> Claim | None:
    job = _job_id(provider, place, environment)
    if not job:
        return None
    named = {
        attribute: environment[name]
        for name, attribute in _NAMED[provider].items()
        if name in environment
    }
    return Claim(provider, job, {_ID_ATTRIBUTE[provider]: job, **named})


def _job_id(provider: str, place: Place, environment: Mapping[str, str]) -> str:
    match provider:
        case "lsf":
            return _lsf(environment) or place.lsf_job
        case "pbs":
            return place.pbs_job or environment.get("PBS_JOBID", "")
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
