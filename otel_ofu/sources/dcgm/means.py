"""Samples of a window as one value: each over its own interval, with the clock of that interval.

Enter: spans of a share of SM cycles, and of the SM clock. Leaves: sum(a f dt) / sum(f dt), which
is what a counter over the whole window would show, and the mean clock sum(f dt) / sum(dt) of the
same time, so that their product is the integral of activity x clock. A sample of the clock is an
instant; it stands for the time since the sample before it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from otel_ofu.model import Window

_BUSY = 0.95
"""Starting value: an interval is busy if the engine was active for this part of it."""

_BUSY_PART = 0.9
"""Of the busy time: that which must lie in busy intervals for theirs to be the clock while busy.
Starting value."""

_STEADY = 0.05
"""A clock that spreads less is the same clock busy or idle."""


class ValueSpan(NamedTuple):
    """A value over (start, end], in Unix seconds."""

    start_s: float
    end_s: float
    value: float

    @property
    def length_s(self) -> float:
        return self.end_s - self.start_s


@dataclass(frozen=True, slots=True)
class SmClock:
    """The SM clock in Hz, by the time since the sample before each of its samples, oldest first."""

    spans: Sequence[ValueSpan]

    def mean(self, start_s: float, end_s: float) -> float | None:
        """The mean over an interval, of that part which was sampled; None if no part was."""
        total = covered_s = 0.0
        for start, end, value in reversed(self.spans):
            if end <= start_s:
                break
            part_s = min(end, end_s) - max(start, start_s)
            if part_s > 0:
                total += value * part_s
                covered_s += part_s
        return total / covered_s if covered_s > 0 else None

    def within(self, window: Window) -> list[float]:
        """The samples of a window."""
        return [s.value for s in self.spans if window.start_s < s.end_s <= window.end_s]


@dataclass(frozen=True, slots=True)
class Pairs:
    """Spans that have a clock, beside their mean clock in Hz."""

    spans: Sequence[ValueSpan]
    clocks_hz: Sequence[float]

    @property
    def window(self) -> Window:
        return Window(self.spans[0].start_s, self.spans[-1].end_s)

    def share(self) -> float:
        """The share of the cycles; by time where no cycle elapsed."""
        cycles = [f * s.length_s for s, f in zip(self.spans, self.clocks_hz, strict=True)]
        if not (total := sum(cycles)):
            return over_time(self.spans)
        return sum(s.value * c for s, c in zip(self.spans, cycles, strict=True)) / total

    def clock_hz(self) -> float:
        """The mean clock of the same time."""
        return over_time(
            [
                ValueSpan(s.start_s, s.end_s, f)
                for s, f in zip(self.spans, self.clocks_hz, strict=True)
            ]
        )


def pairs(spans: Sequence[ValueSpan], clock: SmClock) -> Pairs | None:
    """Spans with the clock of their own interval; None if none has one."""
    found = [(s, f) for s in spans if (f := clock.mean(s.start_s, s.end_s)) is not None]
    return Pairs([s for s, _ in found], [f for _, f in found]) if found else None


def over_time(spans: Sequence[ValueSpan]) -> float:
    """The mean over time of at least one span; the plain mean if all are instants."""
    total_s = sum(s.length_s for s in spans)
    if total_s <= 0:
        return sum(s.value for s in spans) / len(spans)
    return sum(s.value * s.length_s for s in spans) / total_s


def masks_over_time(spans: Sequence[ValueSpan]) -> dict[int, float]:
    """The share of the time of each value, of values that are bit masks."""
    are_instants = all(s.length_s <= 0 for s in spans)
    held: dict[int, float] = {}
    for span in spans:
        weight = 1.0 if are_instants else span.length_s
        held[int(span.value)] = held.get(int(span.value), 0.0) + weight
    total = sum(held.values())
    return {mask: weight / total for mask, weight in held.items()}


def standard_error(samples: Sequence[float]) -> float | None:
    """Of the mean of evenly spaced samples, one standard deviation, from successive differences.

    Half the mean square of the differences is the variance where the clock moves quicker than it is
    sampled; where it moves in slow steps, only the samples beside a step count, as they should.
    None for one sample. Source: Wolter, Introduction to Variance Estimation, systematic samples.
    """
    count = len(samples)
    if count < 2:  # noqa: PLR2004 - a difference takes two
        return None
    squares = sum((b - a) ** 2 for a, b in pairwise(samples))
    return math.sqrt(squares / (2 * (count - 1)) / count)


def busy_clock(engine: Sequence[ValueSpan], clock: SmClock) -> float | None:
    """The mean clock while the engine was active, in Hz; None where samples do not tell it.

    They tell it if the clock stands, or if nearly all activity lies in intervals full of it.
    """
    paired = pairs(engine, clock)
    busy_s = sum(s.value * s.length_s for s in engine)
    if paired is None or busy_s <= 0:
        return None
    samples = clock.within(paired.window)
    if samples and max(samples) - min(samples) < _STEADY * max(samples):
        return paired.clock_hz()
    full = [(s, f) for s, f in zip(paired.spans, paired.clocks_hz, strict=True) if s.value >= _BUSY]
    if sum(s.value * s.length_s for s, _ in full) < _BUSY_PART * busy_s:
        return None
    return over_time([ValueSpan(s.start_s, s.end_s, f) for s, f in full])


@dataclass(frozen=True, slots=True)
class MeanClock:
    """The mean SM clock over a window in Hz, its standard error, and the clock while busy."""

    window: Window
    mean_hz: float
    error_hz: float | None
    busy_hz: float | None


def mean_clock(
    tensor: Sequence[ValueSpan],
    engine: Sequence[ValueSpan],
    fresh: Sequence[ValueSpan],
    clock: SmClock,
) -> MeanClock:
    """That of the time of the tensor activity; without it, that of the clock's `fresh` samples."""
    if paired := pairs(tensor, clock):
        window, mean_hz = paired.window, paired.clock_hz()
    else:
        window, mean_hz = Window(fresh[0].start_s, fresh[-1].end_s), over_time(fresh)
    error_hz = standard_error(clock.within(window))
    return MeanClock(window, mean_hz, error_hz, busy_clock(engine, clock))
