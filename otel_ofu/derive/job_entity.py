"""A job as an entity: what all of its GPUs say of it.

Enters: the attributes of its GPUs. Leaves: the `Entity` of the job.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

from otel_ofu.model import Attribute, Entity

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
