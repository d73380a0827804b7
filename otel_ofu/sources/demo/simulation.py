"""The node in time: one deterministic history for each timeline, seed and interval.

Enters: a `ScenarioTimeline`, a seed and the interval. Leaves: `Frame`, everything about the window
that ends at a given tick, and the gauges of the node's processors and disks in it. Ticks count from
the start of the timeline; chance is drawn by tick number, so a frame does not depend on which
others were computed before.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from otel_ofu.sources.demo.counters import (
    TENSOR,
    CounterTotals,
    WindowSlice,
    window_values,
    zero_totals,
)
from otel_ofu.sources.demo.gpu import Boards, advance, cold_boards
from otel_ofu.sources.demo.job import FIELD, PHASE, Array, healthy_demand, step, vary
from otel_ofu.sources.demo.scenario import ScenarioTimeline

CORES_A_RANK = 16  # starting value
FULL_FROM = 0.9  # from this share of all cores on, threads wait for one


def host_values(parts: Sequence[WindowSlice], demand: Array) -> dict[str, float]:
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


SLICE_S = 2.0  # starting value
WARM_UP_S = 600  # starting value: the boards reach their temperature
PEAK_CLOCK_HZ = 1.83e9  # behind the datasheet's dense tensor peak of H100 SXM
PEAK_FLOP_PER_S = 132 * 4096 * PEAK_CLOCK_HZ
USEFUL = 0.97  # the rest of the tensor work is padding to tiles, arXiv:2605.20799


@dataclass(frozen=True, slots=True)
class DemoReport:
    """What the job itself would log: it knows its steps, and its FLOPs as it counts them.

    `mfu` is model FLOP/s per GPU over the dense BF16 peak (989.4e12), `true_mfu` without the
    miscount. `step_s` is None while the job takes no steps.
    """

    time_s: float
    step_s: float | None
    mfu: float
    flop_per_s: float
    true_mfu: float


@dataclass(frozen=True, slots=True)
class Frame:
    """One window: values by registry key, arrays over GPUs; and the job's view of it."""

    tick: int
    values: dict[str, Array]
    step_s: float | None
    true_mfu: float
    miscount: float
    host: dict[str, float]


class Simulation:
    """Asking for an earlier frame than the last one starts over."""

    def __init__(self, timeline: ScenarioTimeline, gpus: int, seed: int, interval_s: float) -> None:
        self._timeline = timeline
        self._gpus = gpus
        self._seed = seed
        self._interval_s = interval_s
        self._warm = _warmed_up(gpus, seed)
        self._boards = self._warm
        self._totals = zero_totals(gpus)
        self._last: Frame | None = None

    def frame(self, tick: int) -> Frame:
        """The window that ends `tick` (>= 1) intervals after the start."""
        if self._last is not None and tick < self._last.tick:
            self._restart()
        while self._last is None or self._last.tick < tick:
            self._last = self._next(0 if self._last is None else self._last.tick)
        return self._last

    def _restart(self) -> None:
        self._boards = self._warm
        self._totals = zero_totals(self._gpus)
        self._last = None

    def _next(self, done: int) -> Frame:
        draws = np.random.default_rng((self._seed, done)).standard_normal(2 + self._gpus)
        count = math.ceil(self._interval_s / SLICE_S)
        length_s = self._interval_s / count
        starts = [done * self._interval_s + n * length_s for n in range(count)]
        demands = [self._timeline.demand(at_s) for at_s in starts]
        varied = {id(d): vary(d, draws, self._timeline.noise) for d in demands}
        parts = [self._slice(varied[id(d)], length_s) for d in demands]
        return _frame(done + 1, parts, varied[id(demands[-1])], self._totals)

    def _slice(self, demand: Array, length_s: float) -> WindowSlice:
        # The governor reacts to the load that it sees; a second pass settles load and clock.
        boards = advance(self._boards, step(demand, self._boards.clock_hz), demand, length_s)
        taken = step(demand, boards.clock_hz)
        part = WindowSlice(length_s, taken, boards)
        self._boards = boards
        self._totals = self._totals.plus(part, demand)
        return part


def _frame(tick: int, parts: list[WindowSlice], demand: Array, totals: CounterTotals) -> Frame:
    steps = sum(p.length_s / p.step.length_s for p in parts)
    window_s = sum(p.length_s for p in parts)
    rate = sum(p.length_s * (TENSOR @ p.step.shares * p.boards.clock_hz).mean() for p in parts)
    true_mfu = USEFUL * float(rate) / window_s / PEAK_CLOCK_HZ
    return Frame(
        tick,
        window_values(parts, demand, totals),
        window_s / steps if steps else None,
        true_mfu,
        float(demand[FIELD["miscount"]].mean()),
        host_values(parts, demand),
    )


def _warmed_up(gpus: int, seed: int) -> Boards:
    """Boards after ten minutes of a healthy job; boards differ by 3 % in what they draw."""
    draws = np.random.default_rng((seed, gpus)).standard_normal(gpus)
    boards = cold_boards(np.clip(1 + 0.03 * draws, 0.85, 1.15))
    demand = healthy_demand(gpus)
    for _ in range(WARM_UP_S // 10):
        boards = advance(boards, step(demand, boards.clock_hz), demand, 10.0)
    return boards
