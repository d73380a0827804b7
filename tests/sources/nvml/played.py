"""A trace played through the NVML source and the deriver, window by window, in virtual time.

Enters: a rig and a trace. Leaves: what the agent would emit, beside the truth of each window.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np

from otel_ofu.derive import Deriver, DeriverSettings
from otel_ofu.model import Observation, Reading
from tests.sources.nvml.rig import Rig, uuid
from tests.sources.nvml.traces import STEP_S, Floats, Trace

MEAN_CLOCK = ("sm_clock_mean", "sm_clock_mean_error", "sm_clock_busy")
LEFT_OUT_S = 60.0
RUNGS = ("idle", "no_sm", "no_tensor", "clock")
CYCLES = ("sm_cycles_elapsed", "sm_cycles_active", "mma_cycles_active")


@dataclass(frozen=True, slots=True)
class PlayedWindow:
    """What was emitted of a window, and the part of the trace that it is about."""

    seen: Observation
    part: Trace

    @property
    def error(self) -> float:
        """Of the OFU, in points."""
        return 100 * (self.seen.values["ofu"] - self.part.ofu())

    @property
    def uncertainty(self) -> float:
        return 100 * self.seen.values["ofu_uncertainty"]


def play(
    rig: Rig, made: Trace, interval_s: float = 10.0, *, without: Collection[str] = CYCLES
) -> list[PlayedWindow]:
    """Back-to-back windows that begin with the trace; `without`: keys that the driver lacks.

    The first minute is left out: a clock is sampled seldom until it is seen to move.
    """
    rig.stub.trace(0, made.rows(), STEP_S)
    deriver = Deriver(DeriverSettings())
    rig.wait(0)
    begun_s = rig.clock.monotonic_s()
    deriver.derive(_less(rig.read(after_s=0)[uuid(0)], without))
    windows = int(len(made.tensor) * STEP_S / interval_s + 1e-9)
    found = []
    for n in range(windows):
        seen = deriver.derive(_less(rig.read(after_s=interval_s)[uuid(0)], without))
        start_s = begun_s + n * interval_s
        if n * interval_s >= LEFT_OUT_S:
            found.append(PlayedWindow(seen, made.between(start_s, start_s + interval_s)))
    return found


def errors(windows: Sequence[PlayedWindow]) -> Floats:
    """In points, of each window that has an OFU."""
    return np.array([window.error for window in windows if "ofu" in window.seen.values])


def uncertainties(windows: Sequence[PlayedWindow]) -> Floats:
    """As `errors`."""
    return np.array([window.uncertainty for window in windows if "ofu" in window.seen.values])


def ladder_errors(windows: Sequence[PlayedWindow]) -> dict[str, float]:
    """Of each rung over all windows, in points; those that are not told apart belong to their sum.

    `clock` is net of boost, as it is in the trace.
    """
    found = dict.fromkeys((*RUNGS, "unsplit"), 0.0)
    truth = dict.fromkeys(found, 0.0)
    for window in windows:
        seen = window.seen.values
        if "ofu" not in seen:
            continue
        told = {kind: seen[f"gpu_loss:{kind}"] for kind in found if f"gpu_loss:{kind}" in seen}
        if "clock" in told:
            told["clock"] -= seen["gpu_loss:boost"]
        for kind, share in window.part.ladder().items():
            truth[kind if kind in told else "unsplit"] += share
        for kind, share in told.items():
            found[kind] += share
    count = len(errors(windows))
    return {kind: 100 * (found[kind] - truth[kind]) / count for kind in found}


def rms(values: Floats) -> float:
    return float(np.sqrt((values**2).mean()))


def means(values: Floats, size: int) -> Floats:
    """Of so many windows each; what is left over is left out."""
    whole = len(values) // size * size
    found: Floats = values[:whole].reshape(-1, size).mean(axis=1)
    return found


def _less(reading: Reading, without: Collection[str]) -> Reading:
    values = {key: value for key, value in reading.values.items() if key not in without}
    return replace(reading, values=values)
