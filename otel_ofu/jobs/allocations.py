"""Who was given which device, whether or not a process holds it, however its id is spelled.

Enters: the kubelet's grants, Slurm's cgroups, mapping folders, the owners that a source gives.
Leaves: device UUID -> `Claim`s. Sources of spellings: NVIDIA, AMD and GKE device plug-ins; NVIDIA's
DRA driver; NVML.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path

from otel_ofu.files.procfs import CgroupLine
from otel_ofu.jobs import slurm
from otel_ofu.jobs.cgroups import cgroup_of
from otel_ofu.jobs.kubernetes import Grant, Pods
from otel_ofu.jobs.owner import MAPPING, SOURCE, Claim
from otel_ofu.jobs.processes import Neighbours
from otel_ofu.model import Device, Owner
from otel_ofu.model.log_once import CountedLogOnce

_REPLICA = re.compile(r"::\d+$")
_UUID = re.compile(r"(?:GPU|MIG)-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_OLD_MIG = re.compile(r"MIG-(GPU-[0-9a-f-]{36})/(\d+)/\d+")
_NODE = re.compile(r"nvidia(\d+)(?:/gi(\d+))?(?:/vgpu\d+)?")
_NUMBER = re.compile(r"(?:gpu-)?(\d+)(?:\.(\d+))?")
_PCI = re.compile(r"(?:[0-9A-Fa-f]{4,8}):([0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7])")


class DeviceIndex:
    """The devices of one poll. Without any, only ids that are UUIDs are recognised."""

    def __init__(self, devices: Iterable[Device] = ()) -> None:
        self._uuids: set[str] = set()
        self._whole: dict[str, str] = {}
        self._instances: dict[tuple[str, int], str] = {}
        for device in devices:
            self._uuids.add(device.uuid)
            if device.parent and device.mig_instance_id is not None:
                self._add_instance(device)
            elif not device.parent:
                self._add_whole(device)

    def uuid(self, text: str) -> str | None:
        """None for an id that no device here answers to."""
        id_ = _REPLICA.sub("", text)
        if id_ in self._uuids:
            return id_
        if old := _OLD_MIG.fullmatch(id_):
            return self.instance(old[1], int(old[2]))
        if pci := _PCI.fullmatch(id_):
            return self._whole.get(_pci(id_, pci))
        if node := _NODE.fullmatch(id_):
            return self._by_number(node)
        return self._foreign(id_)

    def numbered(self, text: str) -> str | None:
        """As `uuid`, and bare numbers: 3, 3.7 for an instance, gpu-3.

        Only for lists that hold nothing but GPUs: a number does not show what it numbers.
        """
        number = _NUMBER.fullmatch(text)
        return self._by_number(number) if number else self.uuid(text)

    def instance(self, parent: str, gpu_instance_id: int) -> str | None:
        return self._instances.get((parent, gpu_instance_id))

    def _by_number(self, found: re.Match[str]) -> str | None:
        whole = self._whole.get(str(int(found[1])))
        return self.instance(whole or "", int(found[2])) if found[2] else whole

    def _foreign(self, id_: str) -> str | None:
        """A UUID inside a longer name, as CDI devices have; any UUID while no device is known."""
        found = _UUID.search(id_)
        if found and (not self._uuids or found[0] in self._uuids):
            return found[0]
        return None

    def _add_whole(self, device: Device) -> None:
        if device.index is not None:
            self._whole[str(device.index)] = device.uuid
        if pci := _PCI.fullmatch(device.pci_address):
            self._whole[_pci(device.pci_address, pci)] = device.uuid

    def _add_instance(self, device: Device) -> None:
        self._instances[device.parent, device.mig_instance_id or 0] = device.uuid
        if device.index is not None:
            # A GPU in MIG mode may have no reading of its own; its instances know its number.
            self._whole.setdefault(str(device.index), device.parent)


def _pci(text: str, found: re.Match[str]) -> str:
    """The domain has four digits in some lists and eight in others."""
    return f"{int(text.partition(':')[0], 16):x}:{found[1].lower()}"


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


def of_source(owners: Mapping[str, Sequence[Owner]]) -> Allocated:
    """The owners that a source gives, such as the labels of an exporter's page."""
    for uuid, of_device in owners.items():
        for owner in of_device:
            if owner.job_id:
                yield uuid, Claim(SOURCE, owner.job_id, dict(owner.attributes), owner.share)


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
