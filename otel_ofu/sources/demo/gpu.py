"""The GPU: power from activity and clock, the governors that lower the clock, and heat.

Enters: the shares of a step, demands and settings, and the length of a time slice. Leaves: the
clock, power, temperature and clock-event reasons of every GPU, advanced by that slice.

Constants are those of an H100 SXM board where published, otherwise chosen so that a large BF16
job runs at its 700 W cap between 1.3 and 1.7 GHz and near 65 degrees C, as such boards do.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from otel_ofu.sources.demo.job import FIELD, Array, Step

MODEL = "NVIDIA H100 80GB HBM3"
MAX_SM_CLOCK_HZ = 1.98e9
MIN_SM_CLOCK_HZ = 3.45e8
CLOCK_STEP_HZ = 1.5e7
MEM_CLOCK_HZ = 2.619e9
MEM_TOTAL_BYTES = 81559 * 2**20

IDLE_W = 70.0
CLOCK_TREE_W = 45.0  # at the maximum clock, whether or not a kernel runs
MEMORY_W = 110.0  # device memory at full bandwidth
SM_W = 1250.0  # all SMs in matrix multiplication at the maximum clock: far above the cap
CLOCK_EXPONENT = 2.5  # power ~ f V^2, and V rises with f

INLET_C = 30.0
RESISTANCE_C_PER_W = 0.05
CAPACITY_J_PER_C = 900.0
SLOWDOWN_C = 87.0  # software lowers the clock until the heat fits
HW_SLOWDOWN_C = 92.0  # hardware halves the clock
RELEASE_C = 6.0  # both let go this far below

# SM power of a phase relative to matrix multiplication, in the order of job.PHASES.
PHASE_POWER = np.array(
    [1.0, 0.45, 0.12, 0.10, 0.04, 0.0, 0.0, 0.0, 0.75, 0.80, 0.70, 0.60, 0.01, 0.10, 0.10]
)
# Device memory traffic of a phase, relative to the peak bandwidth.
PHASE_DRAM = np.array(
    [0.34, 0.82, 0.12, 0.01, 0.01, 0.0, 0.0, 0.05, 0.22, 0.20, 0.30, 0.25, 0.0, 0.78, 0.08]
)

REASONS = (
    "gpu_idle",
    "applications_clocks_setting",
    "sw_power_cap",
    "hw_slowdown",
    "sw_thermal_slowdown",
    "hw_thermal_slowdown",
    "hw_power_brake_slowdown",
)


@dataclass(frozen=True, slots=True)
class Boards:
    """The boards at one instant; arrays over GPUs. `reasons` is REASONS x GPUs, each 0 or 1."""

    silicon: Array  # SM power relative to the typical board
    clock_hz: Array
    power_w: Array
    temperature_c: Array
    reasons: Array


def cold_boards(silicon: Array) -> Boards:
    """Boards at the inlet temperature and the maximum clock."""
    fill = np.ones_like(silicon)
    return Boards(
        silicon,
        fill * MAX_SM_CLOCK_HZ,
        fill * IDLE_W,
        fill * INLET_C,
        np.zeros((len(REASONS), silicon.size)),
    )


def advance(boards: Boards, step: Step, demand: Array, length_s: float) -> Boards:
    """The boards after a slice of `length_s` in which the job took `step`."""
    memory_w = MEMORY_W * (PHASE_DRAM @ step.shares)
    sm_w = SM_W * boards.silicon * (PHASE_POWER @ step.shares)
    clock_hz, reasons = _govern(boards, demand, IDLE_W + memory_w, sm_w)
    pace = clock_hz / MAX_SM_CLOCK_HZ
    power_w = IDLE_W + CLOCK_TREE_W * pace + memory_w + sm_w * pace**CLOCK_EXPONENT
    resistance = RESISTANCE_C_PER_W / demand[FIELD["cooling"]]
    target_c = INLET_C + resistance * power_w
    decay = np.exp(-length_s / (resistance * CAPACITY_J_PER_C))
    temperature_c = target_c + (boards.temperature_c - target_c) * decay
    return Boards(boards.silicon, clock_hz, power_w, temperature_c, reasons)


def _govern(boards: Boards, demand: Array, fixed_w: Array, sm_w: Array) -> tuple[Array, Array]:
    """The clock that every limit allows, on the grid of the board, and who set the limit."""
    limit_w = demand[FIELD["power_limit_w"]]
    lock_hz = demand[FIELD["clock_lock_hz"]]
    slow, hot = (
        _latched(boards, name, at_c)
        for name, at_c in (
            ("sw_thermal_slowdown", SLOWDOWN_C),
            ("hw_thermal_slowdown", HW_SLOWDOWN_C),
        )
    )
    capped_hz = _clock_within(limit_w, fixed_w, sm_w)
    heat_w = (SLOWDOWN_C - 1 - INLET_C) / RESISTANCE_C_PER_W * demand[FIELD["cooling"]]
    cooled_hz = np.where(slow, _clock_within(heat_w, fixed_w, sm_w), MAX_SM_CLOCK_HZ)
    brake = demand[FIELD["brake"]] > 0
    braked_hz = np.where(hot | brake, MAX_SM_CLOCK_HZ / 2, MAX_SM_CLOCK_HZ)
    allowed = np.minimum(np.minimum(capped_hz, cooled_hz), np.minimum(lock_hz, braked_hz))
    clock_hz = np.maximum(np.floor(allowed / CLOCK_STEP_HZ) * CLOCK_STEP_HZ, MIN_SM_CLOCK_HZ)
    binding = np.stack([capped_hz, lock_hz]) <= allowed
    reasons = np.stack(
        [
            sm_w <= 0,
            binding[1] & (lock_hz < MAX_SM_CLOCK_HZ),
            binding[0] & (capped_hz < MAX_SM_CLOCK_HZ),
            hot | brake,
            slow,
            hot,
            brake,
        ]
    )
    return clock_hz, reasons.astype(np.float64)


def _latched(boards: Boards, reason: str, at_c: float) -> Array:
    """True from `at_c` on, until the board is RELEASE_C below."""
    held = boards.reasons[REASONS.index(reason)] > 0
    return np.where(held, boards.temperature_c > at_c - RELEASE_C, boards.temperature_c >= at_c)


def _clock_within(budget_w: Array, fixed_w: Array, sm_w: Array) -> Array:
    """The highest clock at which the board stays within `budget_w`; the maximum without load."""
    pace: Array = np.ones_like(sm_w)
    for _ in range(2):  # the clock tree draws by the clock that is computed here
        spare_w = np.maximum(budget_w - fixed_w - CLOCK_TREE_W * pace, 1.0)
        pace = np.minimum((spare_w / np.maximum(sm_w, 1e-9)) ** (1 / CLOCK_EXPONENT), 1.0)
    return pace * MAX_SM_CLOCK_HZ
