"""What makes two runs the same job: its name, what it runs, how many GPUs, which, which precision.

Enters: the entity of a job and how many GPUs it holds. Leaves: a hash that outlives a restart. A
change of precision or of the number of GPUs is another fingerprint, with a past of its own.
"""

from __future__ import annotations

import re

from otel_ofu.model import Entity
from otel_ofu.rules.files.rule import stable_hash

_NAMES = (
    *("slurm.job.name", "slurm.partition", "slurm.cluster.name", "lsf.job.name", "lsf.queue"),
    *("pbs.job.name", "pbs.queue", "k8s.namespace.name", "k8s.container.name"),
)
_TELLING = ("slurm.job.name", "lsf.job.name", "pbs.job.name", "k8s.pod.name")
_POD = "k8s.pod.name"
# What controllers append: a hash of a template, five random letters, an index.
_APPENDED = re.compile(r"(-[a-z0-9]{8,10})?-[a-z0-9]{5}$|-\d+$")


def job_fingerprint(job: Entity, gpus: float) -> str:
    """The same for the same job started again; by its id alone where nothing names it."""
    attributes = job.attributes
    named = {name: str(attributes[name]) for name in _NAMES if name in attributes}
    if _POD in attributes:
        named[_POD] = _APPENDED.sub("", str(attributes[_POD]))
    if not any(name in attributes for name in _TELLING):
        named = {"ofu.job.id": job.id}
    sku, precision = attributes.get("ofu.gpu.sku", ""), attributes.get("ofu.precision", "")
    return stable_hash("job", sorted(named.items()), round(gpus), str(sku), str(precision))
