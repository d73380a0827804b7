"""The training job: what one step asks of each GPU, and where the time of a step goes.

Enters: an array of `FIELD` x GPUs (demands and settings) and the SM clocks. Leaves: `Step`, the
share of time that every GPU spends in each of `PHASES`, and the length of a step.

The job is synchronous data parallel: all ranks meet in every step, so a step takes as long as the
slowest rank needs, and the others wait inside their collective.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

# The quantities that a trouble may change, all of one step and one GPU unless noted otherwise, and
# what they are without trouble: a 2 s step of a mid-size language model on H100 at about 1.5 GHz,
# two thirds matrix multiplication, collectives of 1 s of which 80 % hide behind the backward pass.
HEALTHY = {
    "gemm_cycles": 2.0e9,  # SM cycles of matrix multiplications
    "memory_s": 0.30,  # kernels bound by device memory: norms, activations, optimizer
    "comm_s": 1.0,  # collectives over NVLink
    "overlap": 0.8,  # share of comm_s that hides behind computation, 0..1
    "check_s": 0.0,  # CPU-side checks between collectives, all ranks together
    "input_s": 0.01,  # waiting for the next batch
    "gap_s": 0.06,  # short gaps between kernels
    "copy_s": 0.0,  # device memory written out to the host
    "running": 1.0,  # 1 while the rank takes part in the job, else 0
    "clock_lock_hz": 1.98e9,  # the highest SM clock that the operator allows
    "power_limit_w": 700.0,  # the enforced power limit
    "cooling": 1.0,  # heat conductance relative to a healthy heat sink
    "miscount": 1.0,  # FLOPs that the job believes in / FLOPs that it does
    "vector_cycles": 0.0,  # SM cycles of matrix multiplications on the FP32 pipe
    "double_cycles": 0.0,  # the same on the FP64 pipe
    "half_cycles": 0.0,  # the same on the FP16 vector pipe
    "ragged_cycles": 0.0,  # the same on tensor cores, in shapes that fill few tiles
    "lonely_s": 0.0,  # kernels of one block, which hold one SM
    "blit_s": 0.0,  # copies within device memory
    "staged_s": 0.0,  # collectives that go through the memory of the host
    "link_rate": 1.0,  # speed of NVLink relative to a healthy one
    "brake": 0.0,  # 1 while power supplies ask the GPU to slow down, else 0
    "offload_bytes_per_s": 0.0,  # steady traffic to and from the host, each way, behind computation
    "mem_held_bytes": 66.0e9,  # device memory in use
    "mem_swing_bytes": 0.0,  # standard deviation of that from window to window
    "processes": 1.0,  # compute processes on the GPU
    "pcie_gen": 5.0,  # generation that the PCIe link runs at
    "replays_per_s": 0.0,  # PCIe packets that are sent again
    "ecc_per_s": 0.0,  # uncorrected memory errors
    "xid": 0.0,  # code of an error that the driver reports every 100 s; 0: none
    "cores": 2.5,  # processor cores that the work of one rank keeps busy
    "thread_s": 1.1,  # work of a rank's main thread, while the GPU computes
    "io_wait": 0.8,  # share of waiting for a batch that is storage; the rest is processors
    "cpu_quota": 0.0,  # share of periods in which the container runs into its limit
}
FIELD = {name: row for row, name in enumerate(HEALTHY)}

PHASES = (
    *("gemm", "memory", "link", "wait", "check", "gap", "input", "copy"),
    *("vector", "double", "half", "ragged", "lonely", "blit", "staged"),
)
PHASE = {name: row for row, name in enumerate(PHASES)}

# Fields of one step that are a time by themselves, or cycles, and the phase that they fill.
_TIMED = {
    "memory_s": "memory",
    "check_s": "check",
    "gap_s": "gap",
    "input_s": "input",
    "copy_s": "copy",
    "lonely_s": "lonely",
    "blit_s": "blit",
    "staged_s": "staged",
}
_CLOCKED = {
    "gemm_cycles": "gemm",
    "vector_cycles": "vector",
    "double_cycles": "double",
    "half_cycles": "half",
    "ragged_cycles": "ragged",
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
    """FIELD x GPUs of a job without any trouble."""
    return np.repeat(np.array([[value] for value in HEALTHY.values()]), gpus, axis=1)


def vary(demand: Array, draws: Array, noise: float) -> Array:
    """`demand` with the chance of one window: `draws` is 2 + GPUs standard normal numbers.

    The batch varies for all ranks at once, its split between ranks by half of that, and the
    links more; `noise` is the standard deviation of the batch (0.02 = 2 %).
    """
    varied = demand.copy()
    batch, split = 1 + noise * draws[0], 1 + noise / 2 * draws[2:]
    varied[FIELD["gemm_cycles"]] *= np.maximum(batch * split, 0.1)
    varied[FIELD["comm_s"]] *= max(1 + 3 * noise * draws[1], 0.1)
    varied[FIELD["mem_held_bytes"]] -= np.abs(draws[2:]) * varied[FIELD["mem_swing_bytes"]]
    return varied


def step(demand: Array, clock_hz: Array) -> Step:
    """One step of all ranks at these clocks (> 0)."""
    running = demand[FIELD["running"]]
    comm_s = demand[FIELD["comm_s"]] / demand[FIELD["link_rate"]]
    exposed = comm_s * (1 - demand[FIELD["overlap"]])
    spent = np.zeros((len(PHASES), clock_hz.size))
    for name, phase in _CLOCKED.items():
        spent[PHASE[phase]] = demand[FIELD[name]] / clock_hz
    for name, phase in _TIMED.items():
        spent[PHASE[phase]] = demand[FIELD[name]]
    spent[PHASE["link"]] = exposed
    spent *= running
    own = spent.sum(axis=0)
    length_s = float(own.max())
    if length_s <= 0:
        return Step(float("inf"), spent, np.zeros_like(clock_hz))
    spent[PHASE["wait"]] = (length_s - own) * running
    hidden = (comm_s - exposed) * running / length_s
    return Step(length_s, spent / length_s, hidden)
