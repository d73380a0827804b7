"""What the counters show: shares of time become activities, rates and running totals.

Enters: `Step`, `Boards` and demands of the slices of one window. Leaves: registry key -> one
value for each GPU, in catalogue units.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from otel_ofu.sources.demo.gpu import (
    MAX_SM_CLOCK_HZ,
    MEM_CLOCK_HZ,
    MEM_TOTAL_BYTES,
    PHASE_DRAM,
    REASONS,
    Boards,
)
from otel_ofu.sources.demo.job import FIELD, HEALTHY, PHASE, Array, Step

# How much of the time of a phase each counter counts, in the order of job.PHASES:
# gemm, memory, link, wait, check, gap, input, copy; vector, double, half, ragged, lonely, blit,
# staged. A collective holds 32 of 132 SMs, and spins there while it waits; a kernel of one block
# holds one. `gpu_util` samples: gaps of milliseconds escape it, those of seconds do not.
ACTIVITY = {
    "tensor_active": (0.75, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0.20, 0, 0, 0),
    "tensor_imma_active": (0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0),
    "tensor_dfma_active": (0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0),
    "fp64_active": (0, 0, 0, 0, 0, 0, 0, 0, 0, 0.82, 0, 0, 0, 0, 0),
    "fp32_active": (0.05, 0.16, 0.02, 0, 0, 0, 0, 0, 0.78, 0.02, 0.05, 0.06, 0, 0.01, 0.01),
    "fp16_active": (0.01, 0.04, 0, 0, 0, 0, 0, 0, 0, 0, 0.72, 0.01, 0, 0, 0),
    "int_active": (0.08, 0.10, 0.03, 0.02, 0.01, 0, 0, 0, 0.12, 0.10, 0.12, 0.10, 0, 0.02, 0.02),
    "sm_active": (0.97, 0.94, 0.24, 0.24, 0.08, 0, 0, 0, 0.97, 0.97, 0.97, 0.90, 1 / 132, 0.1, 0.2),
    "sm_occupancy": (
        *(0.18, 0.55, 0.08, 0.08, 0.02, 0, 0, 0),
        *(0.25, 0.25, 0.30, 0.14, 1 / 1056, 0.05, 0.06),
    ),
    "gr_engine_active": (1, 1, 1, 1, 0.5, 0, 0, 0.02, 1, 1, 1, 1, 1, 1, 1),
    "dram_active": tuple(PHASE_DRAM),
    "gpu_util": (1, 1, 1, 1, 1, 1, 0, 0.02, 1, 1, 1, 1, 1, 1, 1),
}
TENSOR = np.array(ACTIVITY["tensor_active"])
_ACTIVITY = np.array(list(ACTIVITY.values()))
_SM = list(ACTIVITY).index("sm_active")
_TENSOR = list(ACTIVITY).index("tensor_active")
_UTIL = list(ACTIVITY).index("gpu_util")

LINK_BYTES_PER_S = 3.6e11  # NVLink 4, one direction, what collectives reach of 450 GB/s
COPY_BYTES_PER_S = 2.0e10  # device to host
BATCH_BYTES = 6.0e7  # host to device, one step
COMMANDS_BYTES_PER_S = 2.0e7  # launches and completions while kernels run
STAGED_BYTES_PER_S = 2.2e10  # each way, through the memory of the host
PCIE_MAX_GEN = 5
PCIE_LANES = 16
XIDS = (48, 74, 79, 94)
XID_EVERY_S = 100.0  # starting value

RIPPLE_W = 0.1
"""Of the sensor and its converter: a work load that stands still does not give equal numbers."""

_TIMED = (
    *("sw_power_cap", "sw_thermal_slowdown", "hw_thermal_slowdown"),
    "hw_power_brake_slowdown",
)
_WORKING = [row for name, row in PHASE.items() if name not in ("input", "copy")]


@dataclass(frozen=True, slots=True)
class WindowSlice:
    """A part of a window in which nothing changes."""

    length_s: float
    step: Step
    boards: Boards


@dataclass(frozen=True, slots=True)
class CounterTotals:
    """Counters that only rise; arrays over GPUs.

    `held_s` is REASONS x GPUs. `faults` x GPUs: XIDs, uncorrected errors, PCIe replays.
    """

    energy_j: Array
    cycles: Array
    sm_cycles: Array
    tensor_cycles: Array
    held_s: Array
    faults: Array

    def plus(self, part: WindowSlice, demand: Array) -> CounterTotals:
        """The totals after one more slice."""
        cycles = part.length_s * part.boards.clock_hz
        active = _ACTIVITY @ part.step.shares
        return CounterTotals(
            self.energy_j + part.length_s * part.boards.power_w,
            self.cycles + cycles,
            self.sm_cycles + cycles * active[_SM],
            self.tensor_cycles + cycles * active[_TENSOR],
            self.held_s + part.length_s * part.boards.reasons,
            self.faults + part.length_s * _faults_per_s(demand),
        )


def _faults_per_s(demand: Array) -> Array:
    xid = demand[FIELD["xid"]]
    rates: Array = np.stack(
        [
            *((xid == code) / XID_EVERY_S for code in XIDS),
            demand[FIELD["ecc_per_s"]],
            demand[FIELD["replays_per_s"]],
        ]
    )
    return rates


def zero_totals(gpus: int) -> CounterTotals:
    zero = np.zeros(gpus)
    held_s, faults = np.zeros((len(REASONS), gpus)), np.zeros((len(XIDS) + 2, gpus))
    return CounterTotals(zero, zero, zero, zero, held_s, faults)


def window_values(
    parts: Sequence[WindowSlice], demand: Array, totals: CounterTotals
) -> dict[str, Array]:
    """All counters of a window that consists of `parts`; `demand` and `totals` at its end."""
    weights = np.array([p.length_s for p in parts]) / sum(p.length_s for p in parts)
    shares = _mean(weights, [p.step.shares for p in parts])
    active = _ACTIVITY @ shares
    active[_UTIL] = np.round(active[_UTIL], 2)
    last = parts[-1].boards
    power_w = _mean(weights, [p.boards.power_w for p in parts])
    return (
        dict(zip(ACTIVITY, active, strict=True))
        | {"tensor_hmma_active": active[_TENSOR]}
        | _traffic(weights, parts, demand)
        | _board(last, power_w, demand)
        | {"power": power_w + RIPPLE_W * np.sin(totals.energy_j)}
        | _reasons(last)
        | _totals(totals)
    )


def _mean(weights: Array, values: Sequence[Array]) -> Array:
    mean: Array = np.tensordot(weights, np.stack(values), axes=1)
    return mean


def _traffic(weights: Array, parts: Sequence[WindowSlice], demand: Array) -> dict[str, Array]:
    shares = _mean(weights, [p.step.shares for p in parts])
    link = _mean(weights, [p.step.shares[PHASE["link"]] + p.step.hidden for p in parts])
    link = link * LINK_BYTES_PER_S * demand[FIELD["link_rate"]]
    busy = shares[_WORKING].sum(axis=0)
    batches = _mean(weights, [(p.step.shares.sum(axis=0) > 0) / p.step.length_s for p in parts])
    commands = busy * COMMANDS_BYTES_PER_S
    staged = shares[PHASE["staged"]] * STAGED_BYTES_PER_S
    both = staged + (busy > 0) * demand[FIELD["offload_bytes_per_s"]]
    return {
        "nvlink_tx": link,
        "nvlink_rx": link,
        "pcie_rx": batches * BATCH_BYTES + commands + both,
        "pcie_tx": shares[PHASE["copy"]] * COPY_BYTES_PER_S + commands / 4 + both,
    }


def _board(last: Boards, power_w: Array, demand: Array) -> dict[str, Array]:
    one = np.ones_like(power_w)
    heat_c = 6 + 14 * np.minimum(power_w / HEALTHY["power_limit_w"], 1.5)
    return {
        "sm_clock": last.clock_hz,
        "max_sm_clock": one * MAX_SM_CLOCK_HZ,
        "mem_clock": one * MEM_CLOCK_HZ,
        "power_limit": demand[FIELD["power_limit_w"]],
        "temperature": np.round(last.temperature_c),
        "mem_temperature": np.round(last.temperature_c + heat_c),
        "mem_used": demand[FIELD["mem_held_bytes"]],
        "mem_total": one * MEM_TOTAL_BYTES,
        "process_count": demand[FIELD["processes"]],
        "pcie_link_gen": demand[FIELD["pcie_gen"]],
        "pcie_max_link_gen": one * PCIE_MAX_GEN,
        "pcie_link_width": one * PCIE_LANES,
        "pcie_max_link_width": one * PCIE_LANES,
    }


def _reasons(last: Boards) -> dict[str, Array]:
    return {f"throttled:{name}": last.reasons[n] for n, name in enumerate(REASONS)}


def _totals(totals: CounterTotals) -> dict[str, Array]:
    return {
        "energy": totals.energy_j,
        "sm_cycles_elapsed": np.floor(totals.cycles),
        "sm_cycles_active": np.floor(totals.sm_cycles),
        "mma_cycles_active": np.floor(totals.tensor_cycles),
        "hmma_cycles_active": np.floor(totals.tensor_cycles),
        "ecc_uncorrected": np.floor(totals.faults[-2]),
        "pcie_replays": np.floor(totals.faults[-1]),
        **{f"xid:{code}": np.floor(totals.faults[n]) for n, code in enumerate(XIDS)},
        **{f"throttle_time:{name}": totals.held_s[REASONS.index(name)] for name in _TIMED},
    }
