"""Jobs from their GPUs, over all nodes that a store knows: one observation of each job a step.

Enters: the store of a gateway. Leaves: an `Observation` of kind `job` for each job and step, a
little late, because the points of nodes take a while to come.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from otel_ofu.derive.job_figures import (
    Doubles,
    GpuRows,
    Indices,
    JobFigureSettings,
    JobTotals,
    figures,
)
from otel_ofu.derive.jobs import BUSY_KEYS, job_entity
from otel_ofu.derive.reported import ReportedFigures
from otel_ofu.model import Entity, Observation, Window
from otel_ofu.model.report_interval import MOST_S
from otel_ofu.store import Store

# Starting values: points take up to two steps to come; after a pause the last minute at 10 s
# counts; a GPU that was not seen for three steps is free for the next job.
DELAY_STEPS = 2
MOST_STEPS = 6
RECENT_STEPS = 3
# Starting values: reports come up to five minutes late; attributes of a job hardly change.
REPORT_S = 300.0
DESCRIBE_S = 60.0
REPORTED = ("model_flop_rate", "mfu_reported")


@dataclass(frozen=True, slots=True)
class _Holdings:
    """The jobs of GPUs: `gpus` are columns of the store, `job` numbers among `entities`."""

    gpus: Indices
    job: Indices
    share: Doubles
    entities: Sequence[Entity]
    columns: Indices


class FleetJobs:
    """Owned by one thread. The step of the store has to be the interval of the agents."""

    def __init__(self, store: Store, settings: JobFigureSettings | None = None) -> None:
        self._store = store
        self._settings = settings or JobFigureSettings()
        self._totals = JobTotals()
        self._figures = ReportedFigures()
        self._followed = False
        self._done: int | None = None
        self._described: dict[str, tuple[Entity, int, float]] = {}

    def tick(self, now_s: float) -> list[Observation]:
        """The jobs of every step since the last call of which the points are there by now.

        After a pause, at most `MOST_STEPS` of them.
        """
        last = math.floor(now_s / self._store.step_s) - DELAY_STEPS
        first = last if self._done is None else max(self._done + 1, last - MOST_STEPS + 1)
        if first > last:
            # The clock was set back: begin anew rather than wait for it to catch up.
            self._done = last if self._done and self._done - last > MOST_STEPS else self._done
            return []
        self._done = last
        result = []
        with self._store.reading():
            held = self._held(now_s)
            if held is None:
                return []
            reports = self._reports(last * self._store.step_s)
            for step in range(first, last + 1):
                result += self._of_step(step, held, reports)
        self._totals.forget(last * self._store.step_s)
        return result

    def _of_step(
        self, step: int, held: _Holdings, reports: Mapping[str, Mapping[str, float]]
    ) -> list[Observation]:
        step_s = self._store.step_s
        window = Window((step - 1) * step_s, step * step_s)
        length_s = np.full(len(held.gpus), step_s)
        busy = self._row(BUSY_KEYS[0], window)[held.gpus]
        for key in BUSY_KEYS[1:]:
            busy = np.where(np.isnan(busy), self._row(key, window)[held.gpus], busy)
        rows = GpuRows(
            held.job,
            held.share,
            length_s,
            length_s,
            self._row("ofu", window)[held.gpus],
            self._row("flop_limit", window)[held.gpus],
            busy,
        )
        found = figures(rows, len(held.entities), self._settings)
        jobs = [(entity, window) for entity in held.entities]
        return self._totals.observations(jobs, found, reports)

    def _row(self, key: str, window: Window) -> Doubles:
        """The values of all GPUs in one step."""
        block = self._store.block("gpu", key, window.start_s, window.end_s)
        rows = block.array()
        return rows[-1].astype(np.float64) if len(rows) else np.full(block.columns, np.nan)

    def _held(self, now_s: float) -> _Holdings | None:
        slots = self._store.slots("gpu")
        columns = self._store.membership.jobs(len(slots))
        gpus = np.flatnonzero(slots.live() & (columns >= 0))
        if not len(gpus):
            return None
        jobs, job = np.unique(columns[gpus], return_inverse=True)
        share = self._shares(gpus, now_s)
        members = np.split(gpus[np.argsort(job, kind="stable")], np.cumsum(np.bincount(job))[:-1])
        entities = [
            self._entity(int(column), mine, now_s)
            for column, mine in zip(jobs, members, strict=True)
        ]
        self._described = {e.id: self._described[e.id] for e in entities}
        return _Holdings(gpus, job, share, entities, jobs)

    def _shares(self, gpus: Indices, now_s: float) -> Doubles:
        """A GPU that several jobs hold at a time counts for each of them in equal parts."""
        slots = self._store.slots("gpu")
        recent = slots.last_seen_s[gpus] >= now_s - RECENT_STEPS * self._store.step_s
        names = [slots.entity(gpu) for gpu in gpus.tolist()]
        marks = [str(e.attributes.get("hw.id", e.id)) if e else "" for e in names]
        holders: dict[str, int] = {}
        for mark, is_recent in zip(marks, recent.tolist(), strict=True):
            holders[mark] = holders.get(mark, 0) + is_recent
        many = np.array([max(1, holders[mark]) for mark in marks], np.float64)
        return np.where(recent, 1.0 / many, 1.0)

    def _entity(self, column: int, gpus: Indices, now_s: float) -> Entity:
        """A job by the attributes of its GPUs.

        They may be thousands, so it is asked again only when their number changes, or a minute has
        gone by.
        """
        known = self._store.slots("job").entity(column)
        job = known.id if known else ""
        described = self._described.get(job)
        if described and described[1] == len(gpus) and now_s - described[2] < DESCRIBE_S:
            return described[0]
        slots = self._store.slots("gpu")
        found = (slots.entity(gpu) for gpu in gpus.tolist())
        entity = job_entity(job, [e.attributes for e in found if e], "fleet")
        self._described[job] = (entity, len(gpus), now_s)
        return entity

    def _reports(self, end_s: float) -> Mapping[str, Mapping[str, float]]:
        """What jobs reported of themselves and still stands; at first, of the last hour."""
        since_s = end_s - (REPORT_S if self._followed else MOST_S)
        self._followed = True
        for start_s in np.arange(since_s, end_s, REPORT_S).tolist():
            for key in REPORTED:
                self._follow(key, start_s)
        return self._figures.at(end_s)

    def _follow(self, key: str, start_s: float) -> None:
        step_s, slots = self._store.step_s, self._store.slots("job")
        rows = self._store.block("job", key, start_s, start_s + REPORT_S).array()
        for row, column in np.argwhere(_newest(rows)).tolist():
            entity = slots.entity(column)
            if entity is not None:
                time_s = start_s + (row + 1) * step_s
                self._figures.add(entity.id, key, float(rows[row, column]), time_s)


def _newest(rows: NDArray[np.float32]) -> NDArray[np.bool_]:
    """Which are the last two values of each column: between them lies what the last is about."""
    known = ~np.isnan(rows)
    rank = np.cumsum(known[::-1], axis=0)[::-1]
    return known & (rank <= 2)  # noqa: PLR2004 - as the docstring says
