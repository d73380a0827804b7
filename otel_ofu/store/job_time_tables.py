"""The seconds of GPUs and of their jobs as arrays, a row for each GPU and for each job.

Enters: batches of values of different GPUs. Leaves: what each counter gained, sums by job, and both
tables as bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np
from numpy.typing import NDArray

Doubles = NDArray[np.float64]
Indices = NDArray[np.intp]

_FIRST_ROWS = 64
# Starting values: a gap is some of an agent's intervals, or more than most have where its interval
# is not known.
_GAP_STEPS = 3.5
_LONGEST_STEP_S = 150.0


@dataclass(frozen=True, slots=True)
class JobTime:
    """What one job has: when its sums began, its newest value, and the sums in seconds by key."""

    start_s: float
    seen_s: float
    sums: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class TimeBatch:
    """Values [row, column] of different rows, at a time each."""

    rows: Indices
    columns: Indices
    times_s: Doubles
    values: Doubles


class GpuTimeTable:
    """The newest value of each counter [GPU, key], NaN for none, and when it was seen.

    `step_s`: the time between its last two values; NaN if unknown, infinite if the next may be any.
    """

    def __init__(self) -> None:
        self.rows: dict[str, int] = {}
        self.names: list[str] = []
        self.raw: Doubles = np.full((_FIRST_ROWS, 0), np.nan)
        self.seen_s: Doubles = np.full(_FIRST_ROWS, -np.inf)
        self.step_s: Doubles = np.full(_FIRST_ROWS, np.nan)
        self.job: Indices = np.zeros(_FIRST_ROWS, np.intp)
        self._free: list[int] = []

    def give(self, name: str, job: int) -> int:
        """A row for a new GPU."""
        row = self._free.pop() if self._free else len(self.names)
        if row == len(self.names):
            self.names.append("")
        if row == len(self.seen_s):
            self.raw = np.concatenate([self.raw, np.full_like(self.raw, np.nan)])
            self.seen_s = np.concatenate([self.seen_s, np.full_like(self.seen_s, -np.inf)])
            self.step_s = np.concatenate([self.step_s, np.full_like(self.step_s, np.nan)])
            self.job = np.concatenate([self.job, np.zeros_like(self.job)])
        self.rows[name], self.names[row], self.job[row] = row, name, job
        return row

    def take(self, row: int) -> None:
        """Forgets a GPU."""
        del self.rows[self.names[row]]
        self.names[row] = ""
        self.raw[row], self.seen_s[row], self.step_s[row] = np.nan, -np.inf, np.nan
        self._free.append(row)

    def widen(self, width: int) -> None:
        """Room for so many counters."""
        more = width - self.raw.shape[1]
        if more:
            self.raw = np.concatenate([self.raw, np.full((len(self.raw), more), np.nan)], axis=1)

    def silent(self, before_s: float) -> list[int]:
        seen_s = self.seen_s[: len(self.names)]
        found: list[int] = np.flatnonzero((seen_s < before_s) & (seen_s > -np.inf)).tolist()
        return found

    def saved(self) -> SavedGpuTime:
        rows = np.flatnonzero(self.seen_s[: len(self.names)] > -np.inf)
        return SavedGpuTime(
            [self.names[row] for row in rows.tolist()],
            self.job[rows].tolist(),
            self.seen_s[rows].tobytes(),
            self.raw[rows].tobytes(),
        )

    def restore(self, saved: SavedGpuTime, jobs: Mapping[int, int], since_s: float) -> None:
        """`jobs`: the number of a job as saved -> the one that it has now.

        A GPU that was seen since `since_s` gained in the next gap what nobody else counted.
        """
        if not saved.names:
            return
        seen_s = np.frombuffer(saved.seen_s, np.float64)
        raw = np.frombuffer(saved.seconds, np.float64).reshape(len(seen_s), -1)
        self.widen(raw.shape[1])
        for name, job, at in zip(saved.names, saved.jobs, range(len(seen_s)), strict=True):
            row = self.give(name, jobs[job])
            self.seen_s[row], self.raw[row] = seen_s[at], raw[at]
            self.step_s[row] = np.inf if seen_s[at] >= since_s else np.nan

    def gaps(self, batch: TimeBatch) -> NDArray[np.bool_]:
        """Which GPUs were silent for longer than between two values."""
        away_s, step_s = batch.times_s - self.seen_s[batch.rows], self.step_s[batch.rows]
        gap = away_s > np.where(np.isnan(step_s), _LONGEST_STEP_S, _GAP_STEPS * step_s)
        moved = away_s > 0
        self.step_s[batch.rows] = np.where(
            gap | np.isinf(away_s), np.nan, np.where(moved, away_s, step_s)
        )
        return gap

    def gains(self, batch: TimeBatch) -> Doubles:
        """What each counter gained; the values are the newest now, as far as they are."""
        at = np.ix_(batch.rows, batch.columns)
        before, values, seen_s = self.raw[at], batch.values, self.seen_s[batch.rows]
        newer = (batch.times_s > seen_s)[:, None]
        # A counter that came after its GPU began with 0; a GPU that comes may have a past.
        is_first = np.isneginf(seen_s)[:, None]
        gained = np.where(np.isnan(before), np.where(is_first, 0.0, values), values - before)
        fell = gained < 0
        gained = np.where(fell, np.where(newer, values, 0.0), gained)
        known = ~np.isnan(values)
        self.raw[at] = np.where(known & (newer | ~fell), values, before)
        self.seen_s[batch.rows] = np.maximum(seen_s, batch.times_s)
        return np.where(known, gained, 0.0)


class JobTimeTable:
    """The sums [job, key] in seconds. `keys`: the columns of all tables here."""

    def __init__(self) -> None:
        self.keys: dict[str, int] = {}
        self._numbers: dict[str, int] = {}
        self._names: list[str] = []
        self._sums: Doubles = np.zeros((_FIRST_ROWS, 0))
        self._start_s: Doubles = np.full(_FIRST_ROWS, np.inf)
        self._seen_s: Doubles = np.full(_FIRST_ROWS, -np.inf)
        self._free: list[int] = []

    @property
    def width(self) -> int:
        return len(self.keys)

    def columns(self, keys: Sequence[str]) -> Indices:
        found = [self.keys.setdefault(key, len(self.keys)) for key in keys]
        more = len(self.keys) - self._sums.shape[1]
        if more:
            self._sums = np.concatenate([self._sums, np.zeros((len(self._sums), more))], axis=1)
        return np.array(found, np.intp)

    def number(self, job: str) -> int:
        """The row of a job, which is made if it is new."""
        known = self._numbers.get(job)
        if known is not None:
            return known
        number = self._free.pop() if self._free else len(self._names)
        if number == len(self._names):
            self._names.append("")
        if number == len(self._seen_s):
            self._sums = np.concatenate([self._sums, np.zeros_like(self._sums)])
            self._start_s = np.concatenate([self._start_s, np.full_like(self._start_s, np.inf)])
            self._seen_s = np.concatenate([self._seen_s, np.full_like(self._seen_s, -np.inf)])
        self._numbers[job], self._names[number] = number, job
        return number

    def add(self, numbers: Indices, batch: TimeBatch, gained: Doubles) -> None:
        order = np.argsort(numbers, kind="stable")  # np.add.at takes five times as long
        jobs, first = np.unique(numbers[order], return_index=True)
        self._sums[np.ix_(jobs, batch.columns)] += np.add.reduceat(gained[order], first)
        times_s = batch.times_s[order]
        begun_s = self._start_s[jobs]
        self._start_s[jobs] = np.where(
            np.isinf(begun_s), np.minimum.reduceat(times_s, first), begun_s
        )
        newest_s = np.maximum.reduceat(times_s, first)
        self._seen_s[jobs] = np.maximum(self._seen_s[jobs], newest_s)

    def totals(self, since_s: float, names: Mapping[str, str]) -> dict[str, JobTime]:
        recent = np.flatnonzero(self._seen_s[: len(self._names)] >= since_s)
        return self._times(recent, names)

    def total(self, job: str, names: Mapping[str, str]) -> JobTime | None:
        number = self._numbers.get(job)
        if number is None:
            return None
        return self._times(np.array([number]), names)[job]

    def _times(self, numbers: Indices, names: Mapping[str, str]) -> dict[str, JobTime]:
        known = {key: name for key, name in names.items() if key in self.keys}
        columns = np.array([self.keys[key] for key in known], np.intp)
        called = list(known.values())
        return {
            self._names[number]: JobTime(start_s, seen_s, dict(zip(called, sums, strict=True)))
            for number, start_s, seen_s, sums in zip(
                numbers.tolist(),
                self._start_s[numbers].tolist(),
                self._seen_s[numbers].tolist(),
                self._sums[np.ix_(numbers, columns)].tolist(),
                strict=True,
            )
        }

    def silent(self, before_s: float) -> list[str]:
        seen_s = self._seen_s[: len(self._names)]
        found = np.flatnonzero((seen_s < before_s) & (seen_s > -np.inf))
        return [self._names[number] for number in found.tolist()]

    def take(self, job: str) -> int:
        """Forgets a job; the row that it had."""
        number = self._numbers.pop(job)
        self._names[number] = ""
        self._sums[number], self._start_s[number] = 0.0, np.inf
        self._seen_s[number] = -np.inf
        self._free.append(number)
        return number

    def saved(self) -> SavedJobTime:
        numbers = np.flatnonzero(self._seen_s[: len(self._names)] > -np.inf)
        return SavedJobTime(
            list(self.keys),
            [self._names[number] for number in numbers.tolist()],
            numbers.tolist(),
            np.column_stack([self._start_s, self._seen_s, self._sums])[numbers].tobytes(),
        )

    def restore(self, saved: SavedJobTime) -> dict[int, int]:
        """The number of each job as saved -> the one that it has now."""
        if not saved.names:
            return {}
        self.columns(saved.keys)
        values = np.frombuffer(saved.values, np.float64).reshape(len(saved.names), -1)
        numbers = [self.number(name) for name in saved.names]
        self._start_s[numbers], self._seen_s[numbers] = values[:, 0], values[:, 1]
        self._sums[numbers] = values[:, 2:]
        return dict(zip(saved.numbers, numbers, strict=True))


class SavedJobTime(msgspec.Struct, frozen=True):
    """`values`: [job, (start, newest value, sums)] as doubles."""

    keys: list[str]
    names: list[str]
    numbers: list[int]
    values: bytes


class SavedGpuTime(msgspec.Struct, frozen=True):
    """`jobs`: numbers of jobs; `seen_s`, `seconds` [GPU, key]: doubles."""

    names: list[str]
    jobs: list[int]
    seen_s: bytes
    seconds: bytes
