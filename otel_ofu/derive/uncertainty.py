"""How the OFU of a window was got, and by how much it may be off: one standard deviation.

Enters: what was measured in the window, its reference clock, the clock at the end of the windows
before. Leaves: a `Method` and an uncertainty as a ratio (0.01 is a point of OFU).

Activity is a share of elapsed cycles, so activity x mean clock is exact and the error is that of
the mean clock. With the clock at the end alone, what is unknown is how clock and work go together
within the window: the clock at one end differs from the mean by as much as the clocks at the ends
of two equally busy windows differ from each other; and where the GPU was busy for a part e of the
window, by the step between the busy and the idle clock times sqrt(e (1 - e)) in addition, seen at
the ends or not.
"""

from __future__ import annotations

import math
from typing import Literal

from otel_ofu.derive.cleaning import MeasuredValues
from otel_ofu.derive.counters import CycleShare
from otel_ofu.derive.efficiency import FIXED_CLOCK, tensor_activity
from otel_ofu.model import Gap
from otel_ofu.model.reading import MULTIPLEXED

Method = Literal["cycles", "mean_clock", "end_clock", "multiplexed", "fixed_clock"]

# Our own starting values, held by the traces of bench/clock.py.
RESOLUTION = 3e-4
"""Of an OFU: of the activity counter, and of a clock that is given in steps of 15 MHz."""
TIMING_S = 0.005
"""Between the counters of a window and their time stamps."""
STEP = 0.3
"""The step between busy and idle clock over the reference clock: 1980 to 1420 MHz on an H100."""
JITTER = 0.01
"""The least by which a clock at one instant differs from its mean, over the reference clock."""
TAKING_TURNS = 0.05
"""Relative: of counters that are looked at for a part of the window only."""
_SMOOTHING = 0.1
_EQUALLY_BUSY = 0.1
_BUSY_KEYS = ("gr_engine_active", "gpu_util")


class EndClocks:
    """The clocks at the ends of windows, of one entity."""

    def __init__(self) -> None:
        self._last: tuple[float, float] | None = None
        self._variance: float | None = None
        self.step_hz = 0.0
        """The largest difference of two ends."""

    def observe(self, measured: MeasuredValues) -> None:
        """One more window."""
        clock_hz = measured.values.get("sm_clock")
        if clock_hz is None:
            return
        before, self._last = self._last, (clock_hz, busy_share(measured))
        if before is None:
            return
        apart_hz = abs(clock_hz - before[0])
        self.step_hz = max(self.step_hz, apart_hz)
        if abs(self._last[1] - before[1]) <= _EQUALLY_BUSY:
            known = apart_hz**2 / 2 if self._variance is None else self._variance
            self._variance = known + _SMOOTHING * (apart_hz**2 / 2 - known)

    @property
    def deviation_hz(self) -> float:
        """Of equally busy windows; 0 as long as there were no two."""
        return math.sqrt(self._variance or 0.0)


def busy_share(measured: MeasuredValues) -> float:
    """Of the window; half of it where nothing tells, which leaves most open."""
    values = measured.values
    return next((values[key] for key in _BUSY_KEYS if key in values), 0.5)


def method_of(measured: MeasuredValues, quality: str, cycles: CycleShare | None) -> Method:
    """How the OFU of a window that has one was got."""
    if quality == FIXED_CLOCK:
        return "fixed_clock"
    if cycles is not None:
        return "cycles"
    if quality == MULTIPLEXED:
        return "multiplexed"
    return "mean_clock" if "sm_clock_mean" in measured.values else "end_clock"


def uncertainty(
    method: Method,
    measured: MeasuredValues,
    ofu: float,
    clocks: tuple[float, EndClocks],
    cycles: CycleShare | None,
) -> float:
    """One standard deviation of `ofu`; `clocks`: the reference clock in Hz, those at the ends."""
    if method == "fixed_clock":
        return RESOLUTION
    if cycles is not None:
        return ofu * TIMING_S / cycles.elapsed_s
    activity = tensor_activity(measured)
    if isinstance(activity, Gap):
        return RESOLUTION
    reference_hz, ends = clocks
    of_clock = activity * _clock_error_hz(measured, reference_hz, ends) / reference_hz
    turns = TAKING_TURNS * ofu if method == "multiplexed" else 0.0
    return math.hypot(of_clock, turns, RESOLUTION)


def _clock_error_hz(measured: MeasuredValues, reference_hz: float, ends: EndClocks) -> float:
    values = measured.values
    if "sm_clock_mean" in values and "sm_clock_mean_error" in values:
        return values["sm_clock_mean_error"]
    busy = busy_share(measured)
    step_hz = max(STEP * reference_hz, ends.step_hz)
    deviation_hz = max(JITTER * reference_hz, ends.deviation_hz)
    return math.hypot(deviation_hz, step_hz * math.sqrt(max(0.0, busy * (1 - busy))))
