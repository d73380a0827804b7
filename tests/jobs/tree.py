"""A /proc and a cgroup tree on disk, laid out as the kernel, Slurm and the kubelet lay them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from otel_ofu.files.procfs import INITIAL_NAMESPACE
from otel_ofu.jobs import JobFinder, JobOwner, JobSettings
from otel_ofu.model import Device, Owner
from otel_ofu.model.clock import VirtualClock
from tests.waiting import HANGS_S

GPU = "GPU-00000000-0000-4000-8000-{:012x}"
POD_UID = "0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0"
CONTAINER = "ab" * 32
UPTIME_S = 1000.0
TICKS = os.sysconf("SC_CLK_TCK")


def gpu(number: int) -> str:
    return GPU.format(number)


@dataclass(frozen=True)
class Holder:
    device_uuid: str
    pid: int
    gpu_instance_id: int | None = None
    used_bytes: int | None = None


class Tree:
    """Files below a temporary folder; `proc` and `cgroups` are the roots."""

    def __init__(self, root: Path) -> None:
        self.proc = root / "proc"
        self.cgroups = root / "cgroup"
        self.proc.mkdir()
        self.cgroups.mkdir()
        (self.proc / "uptime").write_text(f"{UPTIME_S} 1.0\n")
        (self.proc / "self" / "ns").mkdir(parents=True)
        (self.proc / "self" / "ns" / "pid").symlink_to(INITIAL_NAMESPACE)

    def process(
        self,
        pid: int,
        environment: Mapping[str, str] | bytes = b"PATH=/bin\0",
        cgroup: str = "0::/user.slice",
        *,
        parent: int = 1,
        start_ticks: int = 5000,
        state: str = "R",
    ) -> None:
        folder = self.proc / str(pid)
        folder.mkdir(exist_ok=True)
        if not isinstance(environment, bytes):
            text = "".join(f"{name}={value}\0" for name, value in environment.items())
            environment = b"PATH=/bin\0" + text.encode()
        fields = [state, str(parent), *["0"] * 17, str(start_ticks), "0"]
        (folder / "stat").write_text(f"{pid} (a) b (c) {' '.join(fields)}\n")
        (folder / "cgroup").write_text(cgroup + "\n")
        (folder / "environ").write_bytes(environment)

    def turns_into(self, pid: int, other: int, environment: Mapping[str, str]) -> None:
        """One process ends and another begins, with few files touched."""
        folder = (self.proc / str(pid)).rename(self.proc / str(other))
        text = "".join(f"{name}={value}\0" for name, value in environment.items())
        (folder / "environ").write_text(text)

    def ends(self, pid: int) -> None:
        shutil.rmtree(self.proc / str(pid))

    def members(self, folder: str, *pids: int) -> None:
        path = self.cgroups / folder.lstrip("/")
        path.mkdir(parents=True, exist_ok=True)
        (path / "cgroup.procs").write_text("".join(f"{pid}\n" for pid in pids))


@dataclass
class Rig:
    """A `JobFinder` over a tree; `holders`, `devices` and `said` are what it is told."""

    tree: Tree
    settings: JobSettings
    holders: list[Holder] = field(default_factory=list)
    devices: list[Device] = field(default_factory=list)
    said: dict[str, Sequence[Owner]] = field(default_factory=dict)
    now_s: float = 1_000_000.0

    def __post_init__(self) -> None:
        self.finder = JobFinder(
            self.settings,
            processes=lambda: tuple(self.holders),
            devices=lambda: tuple(self.devices),
            source_owners=lambda: dict(self.said),
            proc_root=self.tree.proc,
            cgroup_root=self.tree.cgroups,
            clock=VirtualClock(),
            budget_s=HANGS_S,
            call_timeout_s=HANGS_S,
        )

    def poll(self) -> Mapping[str, Sequence[JobOwner]]:
        """The owners after a fresh poll."""
        self.now_s += self.settings.interval
        return self.finder.owners(self.now_s)

    def one(self, uuid: str = gpu(0)) -> JobOwner:
        (owner,) = self.poll()[uuid]
        return owner


MakeRig = Callable[..., Rig]
