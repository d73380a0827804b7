"""The training job: what one step asks of each GPU, and where the time of a step goes.

Enters: an array of `FIELDS` x GPUs (demands and settings) and the SM clocks. Leaves: `Step`, the
share of time that every GPU spends in each of `PHASES`, and the length of a step.

The job is synchronous data parallel: all ranks meet in every step, so a step takes as long as the
slowest rank needs, and the others wait inside their collective.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

# The quantities that a trouble may change; all of one step and one GPU unless said otherwise.
FIELDS = (
    "gemm_cycles",  # SM cycles of matrix multiplications
    "memory_s",  # kernels bound by device memory: norms, activations, optimizer
    "comm_s",  # collectives over NVLink
    "overlap",  # share of comm_s that hides behind computation, 0..1
    "check_s",  # CPU-side checks between collectives, all ranks together
    "input_s",  # waiting for the next batch
    "gap_s",  # short gaps between kernels
    "copy_s",  # device memory written out to the host
    "running",  # 1 while the rank takes part in the job, else 0
    "clock_lock_hz",  # the highest SM clock that the operator allows
    "power_limit_w",  # the enforced power limit
    "cooling",  # heat conductance relative to a healthy heat sink
    "miscount",  # FLOPs that the job believes in / FLOPs that it does
)
FIELD = {name: row for row, name in enumerate(FIELDS)}

PHASES = ("gemm", "memory", "link", "wait", "check", "gap", "input", "copy")

# A 2 s step of a mid-size language model on H100 at about 1.5 GHz: two thirds matrix
# multiplication, collectives of 1 s of which 80 % hide behind the backward pass.
HEALTHY = {
    "gemm_cycles": 2.0e9,
    "memory_s": 0.30,
    "comm_s": 1.0,
    "overlap": 0.8,
    "check_s": 0.0,
    "input_s": 0.01,
    "gap_s": 0.06,
    "copy_s": 0.0,
    "running": 1.0,
    "clock_lock_hz": 1.98e9,
    "power_limit_w": 700.0,
    "cooling": 1.0,
    "miscount": 1.0,
}


@dataclass(frozen=True, slots=True)
class Step:
    """Where the time goes. `shares` is PHASES x GPUs; a column sums to 1, or to 0 without work.

    `length_s` is inf while no rank runs. `hidden` is the share of time in which a hidden
    collective uses the link.
    """

    length_s: float
    shares: Array
    hidden: Array


def healthy_demand(gpus: int) -> Array:
    """FIELDS x GPUs of a job without any trouble."""
    return np.repeat(np.array([[HEALTHY[name]] for name in FIELDS]), gpus, axis=1)


def vary(demand: Array, draws: Array, noise: float) -> Array:
    """`demand` with the chance of one window: `draws` is 2 + GPUs standard normal numbers.

    The batch varies for all ranks at once, its split between ranks by half of that, and the
    links more; `noise` is the standard deviation of the batch (0.02 = 2 %).
    """
    varied = demand.copy()
    batch, split = 1 + noise * draws[0], 1 + noise / 2 * draws[2:]
    varied[FIELD["gemm_cycles"]] *= np.maximum(batch * split, 0.1)
    varied[FIELD["comm_s"]] *= max(1 + 3 * noise * draws[1], 0.1)
    return varied


def step(demand: Array, clock_hz: Array) -> Step:
    """One step of all ranks at these clocks (> 0)."""
    running = demand[FIELD["running"]]
    exposed = demand[FIELD["comm_s"]] * (1 - demand[FIELD["overlap"]])
    spent = np.zeros((len(PHASES), clock_hz.size))
    spent[0] = demand[FIELD["gemm_cycles"]] / clock_hz
    spent[1] = demand[FIELD["memory_s"]]
    spent[2] = exposed
    spent[4] = demand[FIELD["check_s"]]
    spent[5] = demand[FIELD["gap_s"]]
    spent[6] = demand[FIELD["input_s"]]
    spent[7] = demand[FIELD["copy_s"]]
    spent *= running
    own = spent.sum(axis=0)
    length_s = float(own.max())
    if length_s <= 0:
        return Step(float("inf"), spent, np.zeros_like(clock_hz))
    spent[3] = (length_s - own) * running
    hidden = (demand[FIELD["comm_s"]] - exposed) * running / length_s
    return Step(length_s, spent / length_s, hidden)
