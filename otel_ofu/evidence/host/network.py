"""Bytes over the node's network cards, and over the loopback of the node and of its jobs.

Enters: /proc/PID/net/dev of the first process and of the ranks, whose containers may have a
network, and with it a loopback, of their own. Source: proc_pid_net(5).
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

from otel_ofu.evidence.host.node import FIRST, GrowingTotals, Values, grown
from otel_ofu.files.procfs import AccessDeniedError, ProcessGoneError, ProcFs, read_file
from otel_ofu.model import Gap, GapReason

LOOPBACK = "lo"
_VIRTUAL = re.compile(
    "veth|docker|br-|cni|flannel|cali|virbr|ifb|tun|tap|dummy|bond|cilium|lxc|kube|vxlan|geneve|"
    "podman|tailscale"
)
"""How names begin of interfaces that are made of others, or lead nowhere."""
_RECEIVED, _SENT, _PACKETS = 0, 8, 9
Row = tuple[int, int, int]


class Network:
    """`pids`: the processes that hold a GPU."""

    keys = ("network_rx", "network_tx", "loopback_io", "loopback_packets")

    def __init__(self, procfs: ProcFs, sys_root: Path, pids: Callable[[], Collection[int]]) -> None:
        self._procfs = procfs
        self._classes = f"{sys_root}/class/net"
        self._pids = pids
        self._totals = GrowingTotals()
        self._physical: dict[str, bool] = {}

    def read(self) -> Values:
        node = _rows(self._nodes())
        cards = {name: node[name] for name in self._cards(node)}
        loops = {f"node/{LOOPBACK}": node[LOOPBACK]} if LOOPBACK in node else {}
        loops |= self._loops_of_ranks()
        return {
            "network_rx": self._totals.add("network_rx", {n: r[0] for n, r in cards.items()}),
            "network_tx": self._totals.add("network_tx", {n: r[1] for n, r in cards.items()}),
            "loopback_io": self._totals.add("loopback_io", {n: r[1] for n, r in loops.items()}),
            "loopback_packets": self._totals.add("packets", {n: r[2] for n, r in loops.items()}),
        }

    def _nodes(self) -> bytes:
        """That of the first process: an agent in a container may have a network of its own."""
        try:
            return self._procfs.read("1/net/dev")
        except (ProcessGoneError, AccessDeniedError):
            return self._procfs.read("net/dev")

    def _cards(self, rows: Mapping[str, Row]) -> list[str]:
        """Cards with a device behind them; where there is none, whatever is not made of others."""
        names = [name for name in rows if name != LOOPBACK]
        physical = [name for name in names if self._is_physical(name)]
        return physical or [name for name in names if not _VIRTUAL.match(name)]

    def _is_physical(self, name: str) -> bool:
        if name not in self._physical:
            path = f"{self._classes}/{name}/device"
            self._physical[name] = os.path.exists(path)  # noqa: PTH110
        return self._physical[name]

    def _loops_of_ranks(self) -> dict[str, Row]:
        """One for each network namespace other than the node's; none where that is not known."""
        nodes = self._namespace(1)
        found: dict[str, Row] = {}
        for pid in self._pids():
            space = self._namespace(pid)
            if not space or not nodes or space == nodes or f"{space}/{LOOPBACK}" in found:
                continue
            try:
                rows = _rows(self._procfs.read(f"{pid}/net/dev"))
            except (ProcessGoneError, AccessDeniedError):
                continue
            if LOOPBACK in rows:
                found[f"{space}/{LOOPBACK}"] = rows[LOOPBACK]
        return found

    def _namespace(self, pid: int) -> str:
        try:
            return os.readlink(f"{self._procfs.root}/{pid}/ns/net")  # noqa: PTH115
        except OSError:
            return ""


def _rows(text: bytes) -> dict[str, Row]:
    found: dict[str, Row] = {}
    for line in text.split(b"\n")[2:]:
        name, colon, counts = line.partition(b":")
        if colon:
            parts = counts.split()
            row = (int(parts[_RECEIVED]), int(parts[_SENT]), int(parts[_PACKETS]))
            found[name.strip().decode("utf-8", "replace")] = row
    return found


WORD_BYTES = 4  # source: sysfs-class-infiniband
ERRORS = {
    "symbol_error": "counters",
    "link_error_recovery": "counters",
    "link_downed": "counters",
    "out_of_sequence": "hw_counters",
    "packet_seq_err": "hw_counters",
    "rnr_nak_retry_err": "hw_counters",
    "local_ack_timeout_err": "hw_counters",
    "roce_slow_restart": "hw_counters",
}
"""Counter -> the folder of the port that has it."""
_RATE = re.compile(rb"^(\d+(?:\.\d+)?) Gb/sec")
_BYTES_PER_GBIT = 1e9 / 8
_IDLE = Gap(GapReason.NOT_READY, "no traffic")


class InfiniBand:
    """Remembers where the ports are as long as they are there."""

    keys = (
        "infiniband_rx",
        "infiniband_tx",
        "infiniband_limit",
        "infiniband_ports",
        "infiniband_busiest",
        *(f"infiniband_errors:{name}" for name in ERRORS),
    )

    def __init__(self, sys_root: Path) -> None:
        self._root = f"{sys_root}/class/infiniband"
        self._totals = GrowingTotals()
        self._before: Mapping[str, int] | None = None

    def read(self) -> Values:
        ports = self._ports()
        received = {port: _words(port, "port_rcv_data") for port in ports}
        sent = {port: _words(port, "port_xmit_data") for port in ports}
        limits = [_limit(port) for port in ports]
        known = [limit for limit in limits if limit is not None]
        return {
            "infiniband_rx": self._totals.add("rx", received),
            "infiniband_tx": self._totals.add("tx", sent),
            "infiniband_limit": sum(known),
            "infiniband_ports": float(len(known)),
            "infiniband_busiest": self._busiest({p: received[p] + sent[p] for p in ports}),
            **self._errors(ports),
        }

    def _ports(self) -> list[str]:
        """Folders of ports. Raises Gone where there is no adapter."""
        try:
            adapters = sorted(os.listdir(self._root))  # noqa: PTH208 - many small reads
        except FileNotFoundError:
            adapters = []
        folders = [f"{self._root}/{adapter}/ports" for adapter in adapters]
        ports = [f"{folder}/{port}" for folder in folders for port in _listed(folder)]
        if not ports:
            raise ProcessGoneError("no InfiniBand or RoCE adapter")
        return ports

    def _busiest(self, bytes_: Mapping[str, int]) -> float | Gap:
        before, self._before = self._before, bytes_
        if before is None:
            return FIRST
        counted = grown(before, bytes_).values()
        total = sum(counted)
        return max(counted) / total if total else _IDLE

    def _errors(self, ports: list[str]) -> dict[str, float | Gap]:
        found: dict[str, float | Gap] = {}
        for name, folder in ERRORS.items():
            counts = {port: count for port in ports if (count := _count(port, folder, name)) >= 0}
            if counts:
                found[f"infiniband_errors:{name}"] = self._totals.add(name, counts)
        return found


def _listed(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))  # noqa: PTH208
    except FileNotFoundError:
        return []


def _words(port: str, name: str) -> int:
    return int(read_file(f"{port}/counters/{name}")) * WORD_BYTES


def _count(port: str, folder: str, name: str) -> int:
    """-1 where the port does not count it."""
    try:
        return int(read_file(f"{port}/{folder}/{name}"))
    except (ProcessGoneError, AccessDeniedError):
        return -1


def _limit(port: str) -> float | None:
    """Bytes/s one way of a port that is active, None of another."""
    if b"ACTIVE" not in read_file(f"{port}/state"):
        return None
    rate = _RATE.match(read_file(f"{port}/rate"))
    if rate is None:
        raise ValueError("rate of a port in another form")
    return float(rate[1]) * _BYTES_PER_GBIT
