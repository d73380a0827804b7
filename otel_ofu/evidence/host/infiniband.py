"""Bytes, limits and errors of the InfiniBand and RoCE ports.

Enters: /sys/class/infiniband. Source: Documentation/ABI/stable/sysfs-class-infiniband; data is
counted in words of four bytes.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from otel_ofu.evidence.host.part import FIRST, Totals, Values, grown
from otel_ofu.files.procfs import Denied, Gone, read_file
from otel_ofu.model import Gap, GapReason

WORD_BYTES = 4
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
        self._totals = Totals()
        self._before: Mapping[str, int] | None = None

    def read(self, at_s: float) -> Values:
        del at_s
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
            raise Gone("no InfiniBand or RoCE adapter")
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
    except (Gone, Denied):
        return -1


def _limit(port: str) -> float | None:
    """Bytes/s one way of a port that is active, None of another."""
    if b"ACTIVE" not in read_file(f"{port}/state"):
        return None
    rate = _RATE.match(read_file(f"{port}/rate"))
    if rate is None:
        raise ValueError("rate of a port in another form")
    return float(rate[1]) * _BYTES_PER_GBIT
