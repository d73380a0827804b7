"""Who was given which device, whether or not a process holds it.

Enters: the kubelet's grants, Slurm's cgroups, mapping folders, the owners that a source gives.
Leaves: device UUID -> `Claim`s.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path

from otel_ofu.files.procfs import CgroupLine
from otel_ofu.jobs import kubernetes, slurm
from otel_ofu.jobs.cgroups import cgroup_of
from otel_ofu.jobs.devices import DeviceIndex
from otel_ofu.jobs.kubernetes import Pods
from otel_ofu.jobs.owner import JOB_ID, MAPPING, SOURCE, Claim
from otel_ofu.jobs.podresources import Grant
from otel_ofu.jobs.processes import Neighbours
from otel_ofu.model.log_once import CountedLogOnce

Allocated = Iterator[tuple[str, Claim]]
_GPU_RESOURCE = re.compile(r"nvidia\.com/(?:gpu|mig)|amd\.com/gpu|\bgpu\.(?:nvidia|amd)\.com")
_MOST_FOLDERS = 1024  # starting value: the steps of a node
_JOB_FOLDERS = (
    "system.slice/*slurmstepd.scope/*",  # v2
    "unified/system.slice/*slurmstepd.scope/*",
    "memory/slurm*/uid_*/*",  # v1: one of the controllers that Slurm uses
    "devices/slurm*/uid_*/*",
    "freezer/slurm*/uid_*/*",
)


def of_pods(
    grants: Iterable[Grant], pods: Pods, index: DeviceIndex, troubles: CountedLogOnce
) -> Allocated:
    """Resources that are no GPUs are passed over."""
    for grant in grants:
        if not _GPU_RESOURCE.search(grant.resource):
            continue
        uuid = next((found for id_ in grant.ids if (found := _granted(id_, grant, index))), None)
        if uuid:
            yield uuid, pods.named(grant.namespace, grant.pod).claim(grant.container)
        else:
            text = f"{grant.resource}: no GPU here is called {grant.ids[0] if grant.ids else '?'}"
            troubles.note("device_unknown", text)


def of_slurm(
    root: Path, neighbours: Neighbours, index: DeviceIndex, *, personal: bool
) -> Allocated:
    """From the environments of the steps that run here; an unreadable one gives none."""
    for folder in islice(_step_folders(root), _MOST_FOLDERS):
        cgroup = cgroup_of([CgroupLine("", f"/{folder.relative_to(root)}")])
        environment = _first_values(folder, neighbours)
        claim = slurm.claim(cgroup, environment, personal=personal)
        for number in slurm.gpus(cgroup, environment):
            uuid = index.numbered(number)
            if uuid and claim:
                yield uuid, claim


def of_folder(folder: Path, index: DeviceIndex) -> Allocated:
    """A file for each GPU (number, number.instance or UUID), a job in each line: `ID [USER]`.

    Source: dcgm-exporter's HPC job mapping; Princeton jobstats' prolog. Raises OSError.
    """
    for name in sorted(os.listdir(folder)):  # noqa: PTH208 - names alone
        uuid = index.numbered(name)
        if uuid:
            lines = (folder / name).read_text("utf-8", "replace").splitlines()
            for fields in (line.split() for line in lines):
                if fields and fields[0] != "0":
                    yield uuid, Claim(MAPPING, fields[0])


def of_source(owners: Mapping[str, Mapping[str, str]]) -> Allocated:
    """The owners that a source gives, such as the labels of an exporter's page."""
    for uuid, attributes in owners.items():
        pod = attributes.get(kubernetes.POD_NAME, "")
        job = attributes.get(JOB_ID) or (
            pod and f"{attributes.get(kubernetes.NAMESPACE_NAME, '')}/{pod}"
        )
        if job:
            yield uuid, Claim(SOURCE, job, dict(attributes))


def _granted(id_: str, grant: Grant, index: DeviceIndex) -> str | None:
    """A device of a DRA driver for GPUs is numbered; that of a device plug-in has an id."""
    if "/" in grant.resource:
        return index.uuid(id_)
    return index.numbered(id_)


def _step_folders(root: Path) -> Iterator[Path]:
    for pattern in _JOB_FOLDERS:
        for job in root.glob(pattern):
            yield from job.glob("step_*")


def _first_values(folder: Path, neighbours: Neighbours) -> Mapping[str, str]:
    """v2 keeps processes in the leaves: step/user/task_N, step/slurm."""
    for member in (folder, *folder.glob("user/task_*"), *folder.glob("task_*")):
        if values := neighbours.values_in(member):
            return values
    return {}
