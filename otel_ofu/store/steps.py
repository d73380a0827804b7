"""The grid of time: seconds -> numbers of steps."""

from __future__ import annotations

import math

LONGEST_SPAN_S = 60.0
# A value a tenth of a step after an instant still counts to it: timers and clocks are not exact.
SLACK_STEPS = 0.1


class Steps:
    """Steps of `length_s` seconds since the epoch; a bucket is the number of one."""

    def __init__(self, length_s: float) -> None:
        self.length_s = length_s
        self._longest_span = max(3, round(LONGEST_SPAN_S / length_s))

    def bucket(self, time_s: float) -> int:
        """The bucket that a time falls into: those after one instant, up to the next."""
        return math.ceil(time_s / self.length_s - SLACK_STEPS)

    def span(self, window_s: float) -> int:
        """How many buckets a value's own window fills: those of a minute at most."""
        return min(max(1, round(window_s / self.length_s)), self._longest_span)
