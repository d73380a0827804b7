"""How often a job reports a figure: what time a report speaks about, and how long it holds.

Enters: the instants of reports. Leaves: the start of the time before each, and the instant until
which the newest one stands for the present. A report every 10 minutes is about those 10 minutes,
and the next one is due after 10 more; a job that fell silent is not spoken for.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field

# Starting values. A pause for evaluation or a checkpoint is no longer than one interval; figures
# are collected every 10 to 30 s; a job that reports less than once an hour is not followed closely.
LATE = 2.0
FIRST_S = 300.0
LEAST_S = 60.0
MOST_S = 3600.0
_REMEMBERED = 3
"""`LATE`: intervals for which a report stands at most. `FIRST_S`: while only one has come.
`LEAST_S`, `MOST_S`: bounds of it. `_REMEMBERED`: intervals of which the longest counts, because
programs print some lines in pairs."""


@dataclass(slots=True)
class ReportInterval:
    """Of one figure of one job, in Unix seconds.

    `last_s`: the newest report. `until_s`: when it is out of date.
    """

    last_s: float = -math.inf
    until_s: float = -math.inf
    _intervals_s: deque[float] = field(default_factory=lambda: deque(maxlen=_REMEMBERED))

    def add(self, time_s: float) -> float:
        """Takes a report. Returns since when it speaks, or `time_s` where that is not known.

        A first report, and one that is not newer than the last, speak of an instant; a report after
        a pause of more than two intervals speaks of two intervals.
        """
        interval_s = time_s - self.last_s
        if interval_s <= 0:
            return time_s
        self.last_s = time_s
        if interval_s == math.inf:
            self.until_s = time_s + FIRST_S
            return time_s
        spoken_s = min(interval_s, self._bound_s if self._intervals_s else MOST_S)
        self._intervals_s.append(min(interval_s, MOST_S))
        self.until_s = time_s + max(LEAST_S, self._bound_s)
        return time_s - spoken_s

    @property
    def _bound_s(self) -> float:
        return min(MOST_S, LATE * max(self._intervals_s))
