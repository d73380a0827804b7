"""The node: what its processors and disks do while the ranks work.

Enters: the slices of a window and the demands. Leaves: registry key -> value of the node's gauges.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from otel_ofu.sources.demo.counters import Slice
from otel_ofu.sources.demo.job import FIELD, PHASE, Array

CORES_A_RANK = 16
FULL_FROM = 0.9  # from this share of all cores on, threads wait for one


def host_values(parts: Sequence[Slice], demand: Array) -> dict[str, float]:
    """Means over the ranks of a node: every rank has the same number of cores to itself.

    A rank's main thread launches kernels, checks, and waits for batches without spinning. Checks
    go through the kernel's network stack, so half of their time is the system's.
    """
    weights = np.array([p.length_s for p in parts]) / sum(p.length_s for p in parts)
    shares = np.tensordot(weights, np.stack([p.step.shares for p in parts]), axes=1).mean(axis=1)
    step_s = float(weights @ np.array([p.step.length_s for p in parts]))
    running = float(demand[FIELD["running"]].mean())
    thread = float(demand[FIELD["thread_s"]].mean()) / step_s if np.isfinite(step_s) else 0.0
    thread = min(1.0, thread + shares[PHASE["check"]] + shares[PHASE["gap"]])
    cores = float(demand[FIELD["cores"]].mean()) * running
    system = 0.01 + 0.5 * shares[PHASE["check"]] / CORES_A_RANK
    waiting = shares[PHASE["input"]]
    io = float(demand[FIELD["io_wait"]].mean())
    busy = min(1.0, (cores + thread) / CORES_A_RANK)
    return {
        "cpu_user": max(0.0, busy - system),
        "cpu_system": system,
        "cpu_iowait": min(1.0 - busy, waiting * io * 0.3),
        "pressure_cpu_some": max(0.0, (busy - FULL_FROM) / (1 - FULL_FROM)),
        "pressure_io_some": min(1.0, waiting * io + 0.3 * shares[PHASE["copy"]]),
        "rank_thread_mean": thread,
        "container_throttled": float(demand[FIELD["cpu_quota"]].mean()),
    }
