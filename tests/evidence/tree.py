"""A /proc and a /sys on disk, laid out as the kernel lays them."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from otel_ofu.files.procfs import INITIAL_NAMESPACE

GPU = "GPU-00000000-0000-4000-8000-{:012x}"
UPTIME_S = 1000.0
MAPS = "7f0000000000-7f0000001000 r-xp 00000000 08:01 123    {}\n"


def gpu(number: int) -> str:
    return GPU.format(number)


@dataclass(frozen=True)
class Holder:
    device_uuid: str
    pid: int


class Tree:
    """Files below a temporary folder; `proc` and `sys` are the roots."""

    def __init__(self, root: Path) -> None:
        self.proc = root / "proc"
        self.sys = root / "sys"
        (self.proc / "self" / "ns").mkdir(parents=True)
        self.sys.mkdir()
        (self.proc / "uptime").write_text(f"{UPTIME_S} 1.0\n")
        (self.proc / "self" / "ns" / "pid").symlink_to(INITIAL_NAMESPACE)

    def process(
        self,
        pid: int,
        environment: Mapping[str, str] | bytes | None = None,
        arguments: Sequence[str] = ("python", "train.py"),
        *,
        parent: int = 1,
        start_ticks: int = 5000,
        state: str = "R",
        ticks: int = 0,
        env_start: int = 4096,
        cgroup: str = "/job",
        tracer: int = 0,
        cpus: str = "0-63",
        libraries: Sequence[str] = ("/usr/lib/libc.so.6",),
    ) -> Path:
        folder = self.proc / str(pid)
        (folder / "task" / str(pid)).mkdir(parents=True, exist_ok=True)
        (folder / "ns").mkdir(exist_ok=True)
        (folder / "root").mkdir(exist_ok=True)
        fields = [state, str(parent), *["0"] * 9, str(ticks), "0", *["0"] * 6, str(start_ticks)]
        fields += ["0"] * 27 + [str(env_start)]
        line = f"{pid} (a) b (c) {' '.join(fields)}\n"
        (folder / "stat").write_text(line)
        (folder / "task" / str(pid) / "stat").write_text(line)
        (folder / "environ").write_bytes(block({} if environment is None else environment))
        (folder / "cmdline").write_bytes("".join(f"{a}\0" for a in arguments).encode())
        (folder / "cgroup").write_text(f"0::{cgroup}\n")
        status = f"Name:\tpython\nUid:\t1000\t1000\t1000\t1000\nTracerPid:\t{tracer}\n"
        (folder / "status").write_text(status + f"Cpus_allowed_list:\t{cpus}\n")
        (folder / "maps").write_text("".join(MAPS.format(path) for path in libraries))
        return folder

    def inside(self, pid: int, path: str, text: str) -> Path:
        """A file as the process sees it."""
        file = self.proc / str(pid) / "root" / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return file

    def refuse(self, pid: int, name: str) -> None:
        """A folder in place of the file: also refused to root, whom permissions do not stop."""
        file = self.proc / str(pid) / name
        file.unlink()
        file.mkdir()

    def ends(self, pid: int) -> None:
        shutil.rmtree(self.proc / str(pid))

    def write(self, path: str, text: str) -> None:
        """A file below /proc or /sys: `/sys/block/sda/device`."""
        file = self.proc.parent / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


def block(environment: Mapping[str, str] | bytes) -> bytes:
    """An environment as the kernel shows it."""
    if isinstance(environment, bytes):
        return environment
    return b"PATH=/bin\0" + "".join(f"{n}={v}\0" for n, v in environment.items()).encode()
