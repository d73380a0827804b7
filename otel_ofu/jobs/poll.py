"""One poll: asks everybody, puts together what they say.

Enters: what the driver, /proc, cgroups, the kubelet and the source say now. Leaves: the owners of
each device. Whoever does not answer is a trouble; the others still count.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from otel_ofu.files.procfs import ProcFs
from otel_ofu.jobs import allocations, kubernetes, slurm
from otel_ofu.jobs.attribution import Attribution, Claims
from otel_ofu.jobs.claims import claims_of, variables
from otel_ofu.jobs.devices import Inventory
from otel_ofu.jobs.holders import GpuHolder
from otel_ofu.jobs.kubelet import Kubelet, KubeletError
from otel_ofu.jobs.kubernetes import Pod, Pods
from otel_ofu.jobs.lately import Lately
from otel_ofu.jobs.neighbours import Neighbours
from otel_ofu.jobs.owner import MAPPING, SOURCE, Claim, Owner
from otel_ofu.jobs.podresources import Grant, PodResources, PodResourcesError
from otel_ofu.jobs.settings import JobSettings
from otel_ofu.jobs.watch import Look, Watch
from otel_ofu.model import Device
from otel_ofu.model.log_once import Troubles

log = logging.getLogger(__name__)

Owners = Mapping[str, tuple[Owner, ...]]
Answer = TypeVar("Answer")
_Listed = tuple[Sequence[GpuHolder], float | None]
"""Processes, and the uptime when the driver listed them."""


@dataclass(frozen=True, slots=True)
class Inputs:
    """What a poll asks of the rest of the agent; each may fail, none may hang for long."""

    processes: Callable[[], Sequence[GpuHolder]]
    devices: Callable[[], Sequence[Device]]
    source_owners: Callable[[], Mapping[str, Mapping[str, str]]]


@dataclass(frozen=True, slots=True)
class Polled:
    """`unowned`: processes on a GPU that no provider knows."""

    owners: Owners
    processes: int = 0
    unowned: int = 0


class Poll:
    """Belongs to one thread."""

    def __init__(
        self,
        settings: JobSettings,
        inputs: Inputs,
        proc_root: Path,
        cgroup_root: Path,
        call_timeout_s: float,
    ) -> None:
        names = variables(settings)
        self.troubles = Troubles(log, "jobs: ")
        self._settings = settings
        self._pod_resources_path = Path(settings.kubernetes.pod_resources)
        self._inputs = inputs
        self._procfs = ProcFs(proc_root)
        self._cgroup_root = cgroup_root
        self._neighbours = Neighbours(self._procfs, cgroup_root, names)
        self._watch = Watch(self._procfs, self._neighbours, names, self.troubles)
        self._attribution = Attribution(settings.providers)
        self._pod_resources = PodResources(self._pod_resources_path, call_timeout_s)
        self._kubelet = Kubelet(settings.kubernetes, call_timeout_s)
        self._holders: Lately[_Listed] = Lately(((), None))
        self._grants: Lately[Sequence[Grant]] = Lately(())
        self._pods_listed: Lately[Sequence[Pod]] = Lately(())
        self._pods_logged: Lately[Sequence[Pod]] = Lately(())

    def run(self) -> Polled:
        self.troubles.begin()
        holders, listed_s = self._holders.told(self._listed_holders())
        inventory = Inventory(self._asked(self._inputs.devices, "the list of devices") or ())
        looks = self._looks(holders, listed_s)
        pods = self._pods()
        on_device = self._on_devices(holders, looks, pods, inventory)
        allocated: dict[str, list[Claim]] = {}
        for uuid, claim in self._allocations(pods, inventory):
            allocated.setdefault(uuid, []).append(claim)
        owners = {
            uuid: self._attribution.owners(on_device.get(uuid, {}), allocated.get(uuid, ()))
            for uuid in (*on_device, *(uuid for uuid in allocated if uuid not in on_device))
        }
        return _polled(owners, on_device)

    def _listed_holders(self) -> _Listed | None:
        holders = self._asked(self._inputs.processes, "the driver's list of processes")
        return None if holders is None else (holders, self._procfs.uptime_s())

    def close(self) -> None:
        self._pod_resources.close()
        self._kubelet.close()

    def _looks(self, holders: Sequence[GpuHolder], listed_s: float | None) -> dict[int, Look]:
        if holders and not (self._settings.trust_pids or self._procfs.is_hosts()):
            words = (
                "the agent runs in a PID namespace of its own, so the driver's process ids cannot "
                "be looked up; give it the host's (hostPID: true, or --pid=host)"
            )
            self.troubles.note("pid_namespace", words)
            return self._watch.looks((), None)
        return self._watch.looks({holder.pid for holder in holders}, listed_s)

    def _on_devices(
        self,
        holders: Sequence[GpuHolder],
        looks: Mapping[int, Look],
        pods: Pods,
        inventory: Inventory,
    ) -> dict[str, dict[int, Claims]]:
        claims = {pid: self._claims(look, pods) for pid, look in looks.items()}
        found: dict[str, dict[int, Claims]] = {}
        for holder in holders:
            if holder.pid in claims:
                uuid = _device(holder, inventory)
                found.setdefault(uuid, {})[holder.pid] = claims[holder.pid]
        return found

    def _claims(self, look: Look, pods: Pods) -> Claims:
        if slurm.contradicts(look.place, look.environment):
            words = "SLURM_JOB_ID of a process is not the job of its cgroup, which is believed"
            self.troubles.note("environment_of_another_job", words)
        return claims_of(look, pods, self._settings)

    def _allocations(self, pods: Pods, inventory: Inventory) -> Iterator[tuple[str, Claim]]:
        providers = self._settings.providers
        if kubernetes.NAME in providers:
            grants = self._grants.told(self._granted())
            yield from allocations.of_pods(grants, pods, inventory, self.troubles)
        if slurm.NAME in providers:
            yield from allocations.of_slurm(
                self._cgroup_root, self._neighbours, inventory, personal=self._settings.personal
            )
        if MAPPING in providers:
            for folder in self._settings.mapping_dirs:
                yield from self._mapped(Path(folder), inventory)
        if SOURCE in providers:
            said = self._asked(self._inputs.source_owners, "the source's own owners")
            yield from allocations.of_source(said or {})

    def _granted(self) -> Sequence[Grant] | None:
        if not self._pod_resources_path.exists():  # also for a moment while a kubelet starts
            return None
        try:
            return self._pod_resources.grants()
        except PodResourcesError as error:
            self.troubles.note("pod_resources_failed", f"{self._pod_resources_path}: {error}")
            return None

    def _mapped(self, folder: Path, inventory: Inventory) -> list[tuple[str, Claim]]:
        try:
            return list(allocations.of_folder(folder, inventory))
        except FileNotFoundError:
            return []  # made by the prolog of the first job
        except OSError as error:
            self.troubles.note("mapping_dir_failed", f"{folder}: {error.strerror}")
            return []

    def _pods(self) -> Pods:
        if kubernetes.NAME not in self._settings.providers:
            return Pods()
        return Pods(self._pods_listed.told(self._listed()), self._pods_logged.told(self._logged()))

    def _listed(self) -> Sequence[Pod] | None:
        if not self._settings.kubernetes.kubelet_url:
            return ()
        try:
            return self._kubelet.pods()
        except KubeletError as error:
            self.troubles.note(
                "kubelet_failed", f"{self._settings.kubernetes.kubelet_url}: {error}"
            )
            return None

    def _logged(self) -> Sequence[Pod] | None:
        folder = Path(self._settings.kubernetes.pod_logs)
        try:
            return kubernetes.logged_pods(folder)
        except FileNotFoundError:
            return ()
        except OSError as error:
            self.troubles.note("pod_logs_failed", f"{folder}: {error.strerror}")
            return None

    def _asked(self, ask: Callable[[], Answer], what: str) -> Answer | None:
        try:
            return ask()
        except Exception as error:  # noqa: BLE001 - whatever the driver's bindings raise
            self.troubles.note("not_answered", f"{what}: {type(error).__name__}: {error}")
            return None


def _device(holder: GpuHolder, inventory: Inventory) -> str:
    """Some drivers list the processes of an instance under its GPU."""
    if holder.gpu_instance_id is None:
        return holder.device_uuid
    instance = inventory.instance(holder.device_uuid, holder.gpu_instance_id)
    return instance or holder.device_uuid


def _polled(owners: Owners, on_device: Mapping[str, Mapping[int, Claims]]) -> Polled:
    owned = {pid for device in owners.values() for owner in device for pid in owner.pids}
    seen = {pid for processes in on_device.values() for pid in processes}
    kept = {uuid: of_device for uuid, of_device in owners.items() if of_device}
    return Polled(kept, len(seen), len(seen - owned))
