"""A node on disk that a `HostReader` reads, with time that the test moves."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from otel_ofu.evidence.host import HostPaths, HostReader
from otel_ofu.model import Observation
from otel_ofu.model.clock import VirtualClock
from tests.evidence.tree import Tree

NET = "Inter-| Receive | Transmit\n face |bytes packets errs ...\n"


def net(**rows: tuple[int, int, int]) -> str:
    """/proc/net/dev: bytes received, bytes sent, packets sent, of each interface."""
    lines = (
        f"{name:>6}: {received} 1 0 0 0 0 0 0 {sent} {packets} 0 0 0 0 0 0\n"
        for name, (received, sent, packets) in rows.items()
    )
    return NET + "".join(lines)


def disk(name: str, read_sectors: int, written_sectors: int) -> str:
    return f" 8 0 {name} 10 0 {read_sectors} 5 20 0 {written_sectors} 5 0 5 5\n"


@dataclass
class Rig:
    tree: Tree
    pids: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.clock = VirtualClock(1000.0)
        self.cpu("100 0 50 800 50 0 0 0 0 0")
        self.tree.write("/proc/loadavg", "1.0 1.0 1.0 3/400 999\n")
        for name in ("cpu", "memory", "io"):
            self.tree.write(
                f"/proc/pressure/{name}",
                "some avg10=12.50 avg60=1.00 avg300=0.10 total=5\n"
                "full avg10=1.00 avg60=1.00 avg300=0.10 total=5\n",
            )
        self.tree.write("/proc/meminfo", "MemTotal: 1000 kB\nMemFree: 1 kB\nMemAvailable: 250 kB\n")
        self.tree.write("/proc/diskstats", disk("sda", 10, 20))
        self.tree.write("/sys/block/sda/device", "")
        self.tree.write("/proc/1/net/dev", net(lo=(0, 0, 0), eth0=(0, 0, 0)))
        self.tree.write("/sys/class/net/eth0/device", "")
        self.paths = HostPaths(self.tree.proc, self.tree.sys, self.tree.proc.parent / "dev")
        self.reader = HostReader(self.paths, self.clock, host="node-1", pids=lambda: self.pids)

    def cpu(self, ticks: str) -> None:
        text = f"cpu  {ticks}\ncpu0 {ticks}\ncpu1 {ticks}\nintr 5 0\nctxt 1\n"
        self.tree.write("/proc/stat", text)

    def namespace(self, pid: int, name: str) -> None:
        link = self.tree.proc / str(pid) / "ns" / "net"
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(f"net:[{name}]")

    def port(self, adapter: str, *, sent: int = 0, received: int = 0, down: bool = False) -> Path:
        port = f"/sys/class/infiniband/{adapter}/ports/1"
        self.tree.write(f"{port}/counters/port_xmit_data", f"{sent}\n")
        self.tree.write(f"{port}/counters/port_rcv_data", f"{received}\n")
        self.tree.write(f"{port}/state", "1: DOWN\n" if down else "4: ACTIVE\n")
        self.tree.write(f"{port}/rate", "400 Gb/sec (4X NDR)\n")
        return self.tree.sys.parent / port.lstrip("/")

    def read(self, after_s: float = 10.0) -> Observation:
        self.clock.advance(after_s)
        return self.reader.read(self.clock.now_s())
