"""What a GPU does, in steps of 10 ms: made-up work whose clock follows it, and the truth about it.

Enters: a seed and a length. Leaves: a `Trace`, for the stub of the driver, and the OFU and the
ladder that it should be seen to have.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

STEP_S = 0.01
REFERENCE_MHZ = 1830.0
COMPUTING = 0.62
BUSY_SM = 0.93
_WORK = 0.05
"""Tensor activity above which a step counts as work."""


@dataclass(frozen=True, slots=True)
class Trace:
    """Per step: the SM clock, and the activity of the tensor pipes."""

    clock_mhz: Floats
    tensor: Floats

    @property
    def engine(self) -> Floats:
        return (self.tensor > _WORK).astype(np.float64)

    @property
    def sm(self) -> Floats:
        return BUSY_SM * self.engine

    def rows(self) -> list[list[float]]:
        """As the stub wants it: the clock as the driver says it, whole MHz."""
        return [row.tolist() for row in (self.clock_mhz, self.tensor, self.sm, self.engine)]

    def between(self, start_s: float, end_s: float) -> Trace:
        part = slice(round(start_s / STEP_S), round(end_s / STEP_S))
        return Trace(self.clock_mhz[part], self.tensor[part])

    def ofu(self) -> float:
        """The integral of activity x clock, over the reference clock."""
        return float((self.tensor * self.clock_mhz).mean()) / REFERENCE_MHZ

    def ladder(self) -> Mapping[str, float]:
        """Each rung as a share of time, `clock` net of boost."""
        engine, clock = self.engine, 1 - self.clock_mhz / REFERENCE_MHZ
        return {
            "clock": float((self.tensor * clock).mean()),
            "no_tensor": float((self.sm - self.tensor).mean()),
            "no_sm": float((engine - self.sm).mean()),
            "idle": float(1 - engine.mean()),
        }


Make = Callable[[np.random.Generator, int], tuple[Floats, Floats]]


@lru_cache(maxsize=16)
def trace(name: str, seconds: float, seed: int = 1) -> Trace:
    """KeyError for a name that is not in `KINDS`."""
    tensor, clock = KINDS[name](np.random.default_rng(seed), round(seconds / STEP_S))
    return Trace(np.floor(clock), tensor)


def _power_cap(chance: np.random.Generator, steps: int) -> tuple[Floats, Floats]:
    """Steps of 0.8 s, four fifths compute: the limit takes some 560 MHz while they compute."""
    tensor = _repeated(chance, steps, (0.8, 0.03), 0.8, rest=0.02)
    noise = 0.05 * chance.standard_normal(steps)
    tensor = np.clip(np.where(tensor > _WORK, tensor + noise, tensor), 0, 1)
    return tensor, _lagging(1980 - 900 * tensor + 30 * chance.standard_normal(steps), 0.05)


def _phases(period_s: float, duty: float, clocks_mhz: tuple[float, float], lag_s: float) -> Make:
    """Work and rest by turns, each with a clock of its own."""

    def make(chance: np.random.Generator, steps: int) -> tuple[Floats, Floats]:
        tensor = _repeated(chance, steps, (period_s, 0.05 * period_s), duty)
        wanted = np.where(tensor > _WORK, *clocks_mhz) + 25 * chance.standard_normal(steps)
        return tensor, _lagging(wanted, lag_s)

    return make


def _stopped(chance: np.random.Generator, steps: int) -> tuple[Floats, Floats]:
    """A board whose SM clock stands still while nothing runs: no cycle elapses."""
    tensor, clock = _phases(40, 0.5, (1420, 1980), 0.3)(chance, steps)
    return tensor, np.where(tensor > _WORK, clock, 0.0)


def _in_phase(chance: np.random.Generator, steps: int) -> tuple[Floats, Floats]:
    """A step of exactly 10 s that begins with each tick; counters that never move are not true."""
    works = np.arange(steps) % 1000 < 700
    tensor = COMPUTING + 0.01 * chance.standard_normal(steps)
    return np.where(works, tensor, 0.0), np.where(works, 1420.0, 1980.0)


def _steady(chance: np.random.Generator, steps: int) -> tuple[Floats, Floats]:
    """Even work at a clock that wanders by some 60 MHz within seconds."""
    wander = np.empty(steps)
    now = 0.0
    for i, kick in enumerate(chance.standard_normal(steps)):
        now += -now * STEP_S / 2 + 60 * np.sqrt(STEP_S) * kick
        wander[i] = now
    return np.full(steps, 0.40), 1600 + wander


KINDS: Mapping[str, Make] = {
    "power_cap": _power_cap,
    "long_steps": _phases(3, 0.7, (1420, 1980), 0.05),
    "loader_bursts": _phases(40, 0.5, (1420, 1980), 0.3),
    "idle_drop": _phases(40, 0.5, (1755, 345), 0.5),
    "clock_stops": _stopped,
    "in_phase": _in_phase,
    "steady": _steady,
}


def _repeated(
    chance: np.random.Generator,
    steps: int,
    period_s: tuple[float, float],
    duty: float,
    rest: float = 0.0,
) -> Floats:
    """Periods of a normal length (mean, standard deviation), each with its work first."""
    tensor = np.full(steps, rest)
    at = 0
    while at < steps:
        length = max(2, round(chance.normal(*period_s) / STEP_S))
        tensor[at : at + round(duty * length)] = COMPUTING
        at += length
    return tensor


def _lagging(wanted: Floats, lag_s: float) -> Floats:
    """A clock that follows in steps of 15 MHz."""
    clock = np.empty_like(wanted)
    now = wanted[0]
    for i, target in enumerate(wanted):
        now += STEP_S / lag_s * (target - now)
        clock[i] = now
    return np.round(clock / 15) * 15
