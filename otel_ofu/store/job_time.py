"""Totals of jobs: sums of what the cumulative seconds of their GPUs gained.

Enters: the seconds of GPUs with a job, at their own times, in any order and more than once. Leaves:
by job, one sum for each counter. A value that is not above the last one of its GPU adds nothing
unless it is newer: then the counter began anew. The first value of a GPU is where its sum begins,
for another gateway may have counted what lies before; agents export a 0 first. In the same way
belongs to another what a GPU gained in a gap while it was observed and this program ran.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray

from otel_ofu.model import Entity
from otel_ofu.store.job_time_tables import (
    Doubles,
    GpuTimeTable,
    Indices,
    JobTime,
    JobTimeTable,
    SavedGpuTime,
    SavedJobTime,
    TimeBatch,
)

log = logging.getLogger(__name__)

# Starting value: an agent that was away delivers all in order, and what a GPU gained since the
# newest value that is remembered is lost only once.
FORGET_S = 7200.0
# Starting value: a save is as old as a round.
_FRESH_S = 60.0
_JOB_ID = "ofu.job.id"
_ALLOCATED, _OBSERVED = "gpu_time_allocated", "gpu_time_observed"


class JobTimeSums:
    """Thread-safe. `path` None keeps nothing over a restart."""

    def __init__(self, path: Path | None = None) -> None:
        self._lock = threading.Lock()
        self._path = path
        self._table = GpuTimeTable()
        self._jobs = JobTimeTable()
        if path is not None:
            self._restore(path)

    def put(
        self, entities: Sequence[Entity], keys: Sequence[str], times_s: Doubles, values: Doubles
    ) -> None:
        """Takes values [GPU, key] at a time for each GPU; NaN for none. A GPU may come twice."""
        with self._lock:
            columns = self._jobs.columns(keys)
            self._table.widen(self._jobs.width)
            rows = self._rows(entities)
            for at in _distinct(rows, times_s):
                self._add(TimeBatch(rows[at], columns, times_s[at], values[at]))

    def totals(self, since_s: float, names: Mapping[str, str]) -> dict[str, JobTime]:
        """The jobs of which a value is not older than `since_s`.

        `names`: by counter of a GPU, what its sum is called.
        """
        with self._lock:
            return self._jobs.totals(since_s, names)

    def totals_of(self, job: str, names: Mapping[str, str]) -> JobTime | None:
        """One job; None if no value of it is known."""
        with self._lock:
            return self._jobs.total(job, names)

    def save(self, now_s: float) -> None:
        """Forgets what was silent for long, and writes all of it. Raises OSError."""
        with self._lock:
            for row in self._table.silent(now_s - FORGET_S):
                self._table.take(row)
            for job in self._jobs.silent(now_s - FORGET_S):
                self._jobs.take(job)
            saved = _Saved(VERSION, now_s, self._jobs.saved(), self._table.saved())
        if self._path is not None:
            new = self._path.with_suffix(".new")
            new.write_bytes(msgspec.msgpack.encode(saved))
            new.replace(self._path)

    def _rows(self, entities: Sequence[Entity]) -> Indices:
        known = self._table.rows
        found = [known.get(entity.id) for entity in entities]
        for at, row in enumerate(found):
            if row is None:
                found[at] = self._new_row(entities[at])
        return np.array(found, np.intp)

    def _new_row(self, entity: Entity) -> int:
        known = self._table.rows.get(entity.id)  # it may be twice among the entities
        if known is not None:
            return known
        job = self._jobs.number(str(entity.attributes.get(_JOB_ID, "")))
        return self._table.give(entity.id, job)

    def _add(self, batch: TimeBatch) -> None:
        gap = self._table.gaps(batch)
        gained = self._table.gains(batch)
        if gap.any():
            gained[gap & self._is_observed(batch, gained)] = 0.0
        self._jobs.add(self._table.job[batch.rows], batch, gained)

    def _is_observed(self, batch: TimeBatch, gained: Doubles) -> NDArray[np.bool_]:
        """Whether an agent ran meanwhile, whose data is elsewhere then."""
        found = {key: np.flatnonzero(batch.columns == at) for key, at in self._jobs.keys.items()}
        allocated, observed = (
            gained[:, found[key]].sum(axis=1) if key in found else np.zeros(len(gained))
            for key in (_ALLOCATED, _OBSERVED)
        )
        seen: NDArray[np.bool_] = observed > allocated / 2
        return seen

    def _restore(self, path: Path) -> None:
        try:
            saved = _decoded(path.read_bytes())
            numbers = self._jobs.restore(saved.jobs)
            self._table.restore(saved.gpus, numbers, saved.time_s - _FRESH_S)
        except FileNotFoundError:
            return
        except (OSError, msgspec.MsgspecError, ValueError, IndexError) as error:
            log.warning("%s: cannot be read (%s); totals of jobs start empty", path, error)
            self._table, self._jobs = GpuTimeTable(), JobTimeTable()


def _distinct(rows: Indices, times_s: Doubles) -> Iterator[Indices]:
    """Positions without a row twice, the oldest values first."""
    at = np.argsort(times_s, kind="stable")
    if len(set(rows.tolist())) == len(rows):
        yield at
        return
    while len(at):
        _, first = np.unique(rows[at], return_index=True)
        yield at[np.sort(first)]
        at = np.delete(at, first)


class _Saved(msgspec.Struct, frozen=True):
    """The file: all of it, written at once."""

    version: int
    time_s: float
    jobs: SavedJobTime
    gpus: SavedGpuTime


VERSION = 1
_DECODER = msgspec.msgpack.Decoder(_Saved)


def _decoded(raw: bytes) -> _Saved:
    saved = _DECODER.decode(raw)
    if saved.version != VERSION:
        raise ValueError(f"it is of version {saved.version}, this program writes {VERSION}")
    return saved
