"""One poll: the answers of all providers, and the owners that follow from them.

Enters: what the driver, /proc, cgroups, the kubelet and the source answer now. Leaves: the owners
of each device. What fails or hangs is a trouble; the rest still counts.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Generic, TypeVar

from otel_ofu.files.procfs import FOREIGN, ProcFs
from otel_ofu.jobs import allocations, kubernetes, slurm
from otel_ofu.jobs.allocations import DeviceIndex
from otel_ofu.jobs.attribution import Attribution, Claims
from otel_ofu.jobs.claims import claims_of, variables
from otel_ofu.jobs.kubernetes import (
    Grant,
    Kubelet,
    KubeletError,
    Pod,
    PodResources,
    PodResourcesError,
    Pods,
)
from otel_ofu.jobs.owner import MAPPING, SOURCE, Claim, GpuHolder, JobOwner
from otel_ofu.jobs.processes import Neighbours, ProcessReader, ProcessSnapshot
from otel_ofu.jobs.settings import JobSettings
from otel_ofu.model import Device, Owner
from otel_ofu.model.log_once import CountedLogOnce

log = logging.getLogger(__name__)

Owners = Mapping[str, tuple[JobOwner, ...]]
Answer = TypeVar("Answer")
MOST_MISSED = 3
"""Polls in a row that an answer outlives. Starting value: a kubelet restarts in a minute."""

Step = str | int
"""What a poll waits for: a provider, or a process by its id."""

_Listed = tuple[Sequence[GpuHolder], float | None]
"""Processes, and the uptime when the driver listed them."""


@dataclass(frozen=True, slots=True)
class PollInputs:
    """What a poll asks of the rest of the agent; each may fail or hang."""

    processes: Callable[[], Sequence[GpuHolder]]
    devices: Callable[[], Sequence[Device]]
    source_owners: Callable[[], Mapping[str, Sequence[Owner]]]
    proc_root: Path
    cgroup_root: Path
    call_timeout_s: float


@dataclass(frozen=True, slots=True)
class PollResult:
    """`unowned`: processes on a GPU that no provider knows."""

    owners: Owners
    processes: int = 0
    unowned: int = 0


class LastAnswer(Generic[Answer]):
    """The last answer of a provider that now and then gives none, for a few polls.

    A kubelet that restarts would otherwise end the series of all jobs on the node and begin others.
    """

    def __init__(self, nothing: Answer) -> None:
        self._nothing = nothing
        self._last = nothing
        self._missed = 0

    def update(self, answer: Answer | None) -> Answer:
        if answer is not None:
            self._last, self._missed = answer, 0
        else:
            self._missed += 1
            if self._missed > MOST_MISSED:
                self._last = self._nothing
        return self._last


class Poll:
    """Belongs to one thread. `avoided`: a step that is left out, as it hangs in another thread."""

    def __init__(
        self, settings: JobSettings, inputs: PollInputs, troubles: CountedLogOnce | None = None
    ) -> None:
        names = variables(settings)
        self.troubles = troubles or CountedLogOnce(log, "jobs: ")
        self.step: Step | None = None
        """What is waited for, for whoever finds that the poll hangs."""
        self.avoided: Step | None = None
        self._settings = settings
        self._pod_resources_path = Path(settings.kubernetes.pod_resources)
        self._inputs = inputs
        self._procfs = ProcFs(inputs.proc_root)
        self._neighbours = Neighbours(self._procfs, inputs.cgroup_root, names)
        self._reader = ProcessReader(self._procfs, self._neighbours, names, self.troubles)
        self._attribution = Attribution(settings.providers)
        self._pod_resources = PodResources(self._pod_resources_path, inputs.call_timeout_s)
        self._kubelet = Kubelet(settings.kubernetes, inputs.call_timeout_s)
        self._holders: LastAnswer[_Listed] = LastAnswer(((), None))
        self._grants: LastAnswer[Sequence[Grant]] = LastAnswer(())
        self._pods_listed: LastAnswer[Sequence[Pod]] = LastAnswer(())
        self._pods_logged: LastAnswer[Sequence[Pod]] = LastAnswer(())

    def successor(self) -> Poll:
        """For another thread, when this one hangs: it goes on with the last answers."""
        made = Poll(self._settings, self._inputs, self.troubles.successor())
        made._reader = self._reader.successor(made._neighbours, made.troubles)
        made._holders, made._grants = copy(self._holders), copy(self._grants)
        made._pods_listed, made._pods_logged = copy(self._pods_listed), copy(self._pods_logged)
        return made

    def run(self) -> PollResult:
        self.troubles.begin()
        holders, listed_s = self._holders.update(self._listed_holders())
        index = DeviceIndex(self._attempt("the list of devices", self._inputs.devices) or ())
        snapshots = self._snapshots(holders, listed_s)
        pods = self._pods()
        on_device = self._on_devices(holders, snapshots, pods, index)
        allocated: dict[str, list[Claim]] = {}
        for uuid, claim in self._allocations(pods, index):
            allocated.setdefault(uuid, []).append(claim)
        owners = {
            uuid: self._attribution.owners(on_device.get(uuid, {}), allocated.get(uuid, ()))
            for uuid in (*on_device, *(uuid for uuid in allocated if uuid not in on_device))
        }
        return _polled(owners, on_device)

    def close(self) -> None:
        self._pod_resources.close()
        self._kubelet.close()

    def _attempt(self, step: Step, function: Callable[[], Answer]) -> Answer | None:
        """The answer; None where it fails or the step is avoided."""
        if step == self.avoided:
            self.troubles.note("left_out", hang_text(step))
            return None
        self.step = step
        try:
            return function()
        except Exception as error:  # noqa: BLE001 - whatever the driver's bindings raise
            self.troubles.note("not_answered", f"{_name(step)}: {type(error).__name__}: {error}")
            return None
        finally:
            self.step = None

    def _listed_holders(self) -> _Listed | None:
        holders = self._attempt("the driver's list of processes", self._inputs.processes)
        return None if holders is None else (holders, self._procfs.uptime_s())

    def _snapshots(
        self, holders: Sequence[GpuHolder], listed_s: float | None
    ) -> dict[int, ProcessSnapshot]:
        pids = {holder.pid for holder in holders}
        if holders and not (self._settings.trust_pids or self._procfs.is_hosts()):
            self.troubles.note("pid_namespace", FOREIGN)
            pids = set()
        self._reader.begin(pids)
        read = {pid: self._attempt(pid, partial(self._reader.read, pid, listed_s)) for pid in pids}
        return {pid: snapshot for pid, snapshot in read.items() if snapshot}

    def _on_devices(
        self,
        holders: Sequence[GpuHolder],
        snapshots: Mapping[int, ProcessSnapshot],
        pods: Pods,
        index: DeviceIndex,
    ) -> dict[str, dict[int, Claims]]:
        claims = {pid: self._claims(snapshot, pods) for pid, snapshot in snapshots.items()}
        found: dict[str, dict[int, Claims]] = {}
        for holder in holders:
            if holder.pid in claims:
                uuid = _device(holder, index)
                found.setdefault(uuid, {})[holder.pid] = claims[holder.pid]
        return found

    def _claims(self, snapshot: ProcessSnapshot, pods: Pods) -> Claims:
        if slurm.contradicts(snapshot.cgroup, snapshot.environment):
            text = "SLURM_JOB_ID of a process is not the job of its cgroup; the cgroup counts"
            self.troubles.note("environment_of_another_job", text)
        return claims_of(snapshot, pods, self._settings)

    def _allocations(self, pods: Pods, index: DeviceIndex) -> Iterator[tuple[str, Claim]]:
        providers = self._settings.providers
        if kubernetes.NAME in providers:
            grants = self._grants.update(
                self._attempt("the kubelet's pod resources", self._granted)
            )
            yield from allocations.of_pods(grants, pods, index, self.troubles)
        if slurm.NAME in providers:
            yield from self._attempt("Slurm's cgroups", partial(self._of_slurm, index)) or ()
        if MAPPING in providers:
            for folder in self._settings.mapping_dirs:
                mapped = partial(self._mapped, Path(folder), index)
                yield from self._attempt(folder, mapped) or ()
        if SOURCE in providers:
            owners = self._attempt("the source's own owners", self._inputs.source_owners)
            yield from allocations.of_source(owners or {})

    def _granted(self) -> Sequence[Grant] | None:
        if not self._pod_resources_path.exists():  # also for a moment while a kubelet starts
            return None
        try:
            return self._pod_resources.grants()
        except PodResourcesError as error:
            self.troubles.note("pod_resources_failed", f"{self._pod_resources_path}: {error}")
            return None

    def _of_slurm(self, index: DeviceIndex) -> list[tuple[str, Claim]]:
        root, personal = self._inputs.cgroup_root, self._settings.personal
        return list(allocations.of_slurm(root, self._neighbours, index, personal=personal))

    def _mapped(self, folder: Path, index: DeviceIndex) -> list[tuple[str, Claim]]:
        try:
            return list(allocations.of_folder(folder, index))
        except FileNotFoundError:
            return []  # made by the prolog of the first job
        except OSError as error:
            self.troubles.note("mapping_dir_failed", f"{folder}: {error.strerror}")
            return []

    def _pods(self) -> Pods:
        if kubernetes.NAME not in self._settings.providers:
            return Pods()
        listed = self._pods_listed.update(self._attempt("the kubelet's list of pods", self._listed))
        logged = self._pods_logged.update(self._attempt("the folder of pod logs", self._logged))
        return Pods(listed, logged)

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


def hang_text(step: Step | None) -> str:
    """One text for as long as it hangs, so one log line: without a process id."""
    return f"{_name(step)} did not answer for four intervals; polls go on without it"


def _name(step: Step | None) -> str:
    if step is None:
        return "a poll"
    return step if isinstance(step, str) else "a process on a GPU"


def _device(holder: GpuHolder, index: DeviceIndex) -> str:
    """Some drivers list the processes of an instance under its GPU."""
    if holder.gpu_instance_id is None:
        return holder.device_uuid
    instance = index.instance(holder.device_uuid, holder.gpu_instance_id)
    return instance or holder.device_uuid


def _polled(owners: Owners, on_device: Mapping[str, Mapping[int, Claims]]) -> PollResult:
    owned = {pid for device in owners.values() for owner in device for pid in owner.pids}
    seen = {pid for processes in on_device.values() for pid in processes}
    kept = {uuid: of_device for uuid, of_device in owners.items() if of_device}
    return PollResult(kept, len(seen), len(seen - owned))
