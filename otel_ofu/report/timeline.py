"""Sums by job and time in bounded memory: buckets that double when time grows longer.

Enters: a job, an instant, amounts. Leaves: one array of buckets for each job. All jobs share one
grid, whose width is the smallest that keeps the whole time within `MOST_BUCKETS`; amounts are only
ever added, so the order in which they come does not matter.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

Doubles = NDArray[np.float64]

MOST_BUCKETS = 300  # a day in steps of 5 minutes and both its ends; a picture is not wider


class BucketSums(IntEnum):
    """What is added up in a bucket. Times are GPU-seconds."""

    HELD = 0  # that the job held
    SEEN = 1  # the part with an OFU
    DONE = 2  # integral of OFU over it
    LOST = 3  # that the same work would have saved at the target
    IDLE = 4  # in which no kernel ran
    LIMIT = 5  # integral of the FLOP limit, FLOP
    LIMITED = 6  # GPU time with a known limit
    MFU = 7  # MFU over our peak, integrated over the seconds that reports speak about; those
    MFU_S = 8
    RATE = 9  # FLOP/s of one GPU, as above
    RATE_S = 10
    PRINTED = 11  # MFU over the job's own peak, as above
    PRINTED_S = 12


@dataclass(slots=True)
class _Row:
    """The buckets of a job from number `first` on."""

    first: int
    sums: Doubles

    def reach(self, number: int) -> Doubles:
        """The sums of a bucket; the row grows to hold it."""
        if number < self.first:
            self.sums = np.pad(self.sums, ((self.first - number, 0), (0, 0)))
            self.first = number
        elif number >= self.first + len(self.sums):
            missing = number - self.first - len(self.sums) + 1
            self.sums = np.pad(self.sums, ((0, missing), (0, 0)))
        bucket: Doubles = self.sums[number - self.first]
        return bucket

    def fold(self) -> None:
        """Twice the width: two neighbours become one."""
        sums = np.pad(self.sums, ((self.first % 2, 0), (0, 0)))
        sums = np.pad(sums, ((0, len(sums) % 2), (0, 0)))
        self.first //= 2
        self.sums = sums[0::2] + sums[1::2]


class Timelines:
    """`width_s`: of a bucket at first, above 0. Buckets lie at multiples of it since 1970."""

    def __init__(self, width_s: float) -> None:
        if not 0 < width_s < math.inf:
            raise ValueError(f"width: {width_s:g} s; allowed: above 0")
        self.width_s = width_s
        self._rows: dict[str, _Row] = {}
        self._first: int | None = None
        self._last = 0

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __contains__(self, job: object) -> bool:
        return job in self._rows

    def number(self, time_s: float) -> int:
        """Which bucket an instant is in; it changes when buckets double."""
        return math.floor(time_s / self.width_s)

    def spans(self, time_s: float) -> bool:
        """Whether an instant lies between the first and the last bucket that anything is in."""
        if self._first is None or not math.isfinite(time_s):
            return False
        return self._first <= self.number(time_s) <= self._last

    def add_over(self, job: str, start_s: float, end_s: float, rates: Doubles) -> None:
        """Adds `rates` x seconds to the buckets of (start, end] that are not before the job's."""
        start_s = max(start_s, self._rows[job].first * self.width_s)
        for edge_s in self._edges(start_s, end_s):
            self.add(job, (start_s + edge_s) / 2, rates * (edge_s - start_s))
            start_s = edge_s

    def add(self, job: str, time_s: float, amounts: Sequence[float] | Doubles) -> None:
        """Adds `amounts`, one for each `BucketSums`, to the bucket of an instant (Unix seconds)."""
        number = self._fit(time_s)
        row = self._rows.get(job)
        if row is None:
            row = self._rows[job] = _Row(number, np.zeros((1, len(BucketSums))))
        row.reach(number)[:] += amounts

    def of(self, job: str) -> tuple[Doubles, Doubles]:
        """The starts of a job's buckets (Unix seconds), and buckets x `BucketSums`."""
        row = self._rows[job]
        starts = (row.first + np.arange(len(row.sums))) * self.width_s
        return starts.astype(np.float64), row.sums

    def _edges(self, start_s: float, end_s: float) -> list[float]:
        """Where the parts of a time end that lie in one bucket each."""
        width_s = self.width_s
        inner = np.arange(math.floor(start_s / width_s) + 1, math.ceil(end_s / width_s)) * width_s
        return [*inner.tolist(), end_s]

    def _fit(self, time_s: float) -> int:
        number = self.number(time_s)
        if self._first is None:
            self._first = self._last = number
        first, last = min(self._first, number), max(self._last, number)
        while last - first >= MOST_BUCKETS:
            self.width_s *= 2
            first, last, number = first // 2, last // 2, number // 2
            for row in self._rows.values():
                row.fold()
        self._first, self._last = first, last
        return number
