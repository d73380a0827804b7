"""Bytes over the node's network cards, and over the loopback of the node and of its jobs.

Enters: /proc/PID/net/dev of the first process and of the ranks, whose containers may have a
network, and with it a loopback, of their own. Source: proc_pid_net(5).
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

from otel_ofu.evidence.host.part import Totals, Values
from otel_ofu.files.procfs import Denied, Gone, ProcFs

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
        self._totals = Totals()
        self._physical: dict[str, bool] = {}

    def read(self, at_s: float) -> Values:
        del at_s
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
        except (Gone, Denied):
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
        """One for each network namespace other than the node's; none where that is not told."""
        nodes = self._namespace(1)
        found: dict[str, Row] = {}
        for pid in self._pids():
            space = self._namespace(pid)
            if not space or not nodes or space == nodes or f"{space}/{LOOPBACK}" in found:
                continue
            try:
                rows = _rows(self._procfs.read(f"{pid}/net/dev"))
            except (Gone, Denied):
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
            words = counts.split()
            row = (int(words[_RECEIVED]), int(words[_SENT]), int(words[_PACKETS]))
            found[name.strip().decode("utf-8", "replace")] = row
    return found
