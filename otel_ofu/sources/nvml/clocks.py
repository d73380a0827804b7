"""The SM clock over a window, from samples that each stand for a part of it.

Enters: spans of time with the clock that was sampled in each. Leaves: the mean clock, its standard
error, the clock while busy, and the share of the window of each clock event reason.

A span stands for one stratum: one instant, chosen at random in it. So the mean is unbiased whatever
the phase of the work, and its error follows from the differences of neighbours: a sixth of their
mean square where the clock moves in steps that are longer than a stratum, half of it where each
sample is as good as independent; the differences over two strata tell which.
Source: Wolter, Introduction to Variance Estimation, chapter 8 (one unit per stratum).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from otel_ofu.sources.nvml.counters import CLOCK_EVENT_BITS

# Our own starting values, not measured.
LEAST_COVERAGE = 0.75
"""Of the window: what must have been sampled for a mean."""
LEAST_SAMPLES = 3
"""Two differences, so that there is an error."""
STEADY = 0.05
"""A clock that spreads less is the same clock busy or idle."""
BUSY_BAND = 0.1
"""How near the time of the samples that are taken for busy has to be to the engine's."""
NEARLY_ALWAYS = 0.98
ROUNDING = 1.02
"""Of shares: an SM is not active for more than all of the busy time."""

_STEPS, _INDEPENDENT = 1 / 6, 1 / 2
_IDLE = CLOCK_EVENT_BITS["gpu_idle"]
_UNDER_LOAD = (
    CLOCK_EVENT_BITS["sw_power_cap"]
    | CLOCK_EVENT_BITS["hw_slowdown"]
    | CLOCK_EVENT_BITS["hw_power_brake_slowdown"]
)


class ClockSpan(NamedTuple):
    """The clock in Hz and the clock event reasons (None: not read) of (start, end], monotonic."""

    start_s: float
    end_s: float
    clock_hz: float
    reasons: int | None = None

    @property
    def length_s(self) -> float:
        return self.end_s - self.start_s


@dataclass(frozen=True, slots=True)
class ClockWindow:
    """The spans of one window, cut to it."""

    spans: Sequence[ClockSpan]

    def mean_hz(self) -> float:
        return _mean(self.spans)

    def error_hz(self) -> float:
        """Standard error of the mean, one standard deviation."""
        clocks = [span.clock_hz for span in self.spans]
        near = sum((b - a) ** 2 for a, b in pairwise(clocks))
        if near == 0:
            return 0.0
        far = sum((b - a) ** 2 for a, b in zip(clocks, clocks[2:], strict=False))
        steps = min(1.0, max(0.0, far / near - 1))
        factor = _INDEPENDENT - (_INDEPENDENT - _STEPS) * steps
        squares = sum(
            ((b.length_s + a.length_s) / 2 * (b.clock_hz - a.clock_hz)) ** 2
            for a, b in pairwise(self.spans)
        )
        return math.sqrt(factor * squares) / _length(self.spans)

    def busy_hz(self, engine: float | None, sm: float | None) -> float | None:
        """The mean clock while the engine was busy; None where the samples do not tell it.

        `engine` is its share of the time, `sm` the SMs' share of the elapsed cycles.
        """
        clocks = [span.clock_hz for span in self.spans]
        if max(clocks) - min(clocks) <= STEADY * max(clocks):
            return self.mean_hz() or None  # nothing runs at 0 Hz: the work was not sampled
        if engine is None or sm is None or engine <= 0:
            return None
        if engine >= NEARLY_ALWAYS:
            return self.mean_hz()
        busy = [span for span in self.spans if span.reasons is not None and not _is(span, _IDLE)]
        told = bool(busy) and len(busy) < len(self.spans)
        found = self._level(busy, engine) if told else None
        return found or self._busy_by_level(engine, sm)

    def reasons(self) -> Mapping[str, float]:
        """The share of the sampled time in which each reason held; empty where none was read."""
        read = [span for span in self.spans if span.reasons is not None]
        if not read:
            return {}
        total_s = _length(read)
        return {
            reason: _length([span for span in read if _is(span, bit)]) / total_s
            for reason, bit in CLOCK_EVENT_BITS.items()
        }

    def _busy_by_level(self, engine: float, sm: float) -> float | None:
        """The mean of the low or of the high clocks of the window, which were two levels.

        Work is at the low ones where a limit holds there, at the high ones where the clock is let
        down without work; SMs cannot have been active for more than the busy time. The level has
        to be held for as long as the engine was busy.
        """
        clocks = [span.clock_hz for span in self.spans]
        middle_hz = (min(clocks) + max(clocks)) / 2
        low = [span for span in self.spans if span.clock_hz <= middle_hz]
        high = [span for span in self.spans if span.clock_hz > middle_hz]
        if sm * self.mean_hz() > ROUNDING * engine * _mean(low):
            return self._level(high, engine)
        limited = [span for span in self.spans if _is(span, _UNDER_LOAD)]
        if limited and _mean(limited) <= middle_hz:
            return self._level(low, engine)
        return None

    def _level(self, spans: Sequence[ClockSpan], engine: float) -> float | None:
        held = _length(spans) / _length(self.spans)
        return _mean(spans) if abs(held - engine) <= BUSY_BAND else None


def window_of(spans: Sequence[ClockSpan], start_s: float, end_s: float) -> ClockWindow | None:
    """The part of the spans in (start, end]; None where they do not cover enough of it."""
    cut = [
        ClockSpan(max(s.start_s, start_s), min(s.end_s, end_s), s.clock_hz, s.reasons)
        for s in spans
        if s.end_s > start_s and s.start_s < end_s
    ]
    if len(cut) < LEAST_SAMPLES or _length(cut) < LEAST_COVERAGE * (end_s - start_s):
        return None
    return ClockWindow(cut)


def _is(span: ClockSpan, bits: int) -> bool:
    return bool((span.reasons or 0) & bits)


def _length(spans: Sequence[ClockSpan]) -> float:
    return sum(span.length_s for span in spans)


def _mean(spans: Sequence[ClockSpan]) -> float:
    return sum(span.clock_hz * span.length_s for span in spans) / _length(spans)
