"""Jobs from their GPUs, over all nodes that a store knows: figures of each step, totals of now.

Enters: the store of a gateway, the seconds of GPUs. Leaves: an `Observation` of kind `job` for each
job and step, as soon as the data of all of its GPUs is there, or the allowed lateness is over: then
it holds how many are late, and each node has a count of the late time. Totals are sums of what
the agents counted, whenever that comes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from otel_ofu.derive.gpu_time import KEPT_S
from otel_ofu.derive.job_figures import (
    TOTALS,
    Doubles,
    GpuRows,
    Indices,
    JobFigures,
    JobFigureSettings,
    Reports,
    figures,
    observations,
    total,
)
from otel_ofu.derive.jobs import job_entity
from otel_ofu.derive.late_time import LateTime
from otel_ofu.derive.reported import ReportedFigures
from otel_ofu.model import Entity, Observation, Window
from otel_ofu.model.report_interval import MOST_S
from otel_ofu.store import FleetState, Store

# Starting values: after a pause the last minute at 10 s is published; a GPU that was not seen for
# three steps is free for the next job; timers and clocks are good to a tenth of a step.
MOST_STEPS = 6
RECENT_STEPS = 3
SLACK_STEPS = 0.1
# Starting values: reports come up to five minutes late; attributes of a job hardly change.
REPORT_S = 300.0
DESCRIBE_S = 60.0
REPORTED = ("model_flop_rate", "mfu_reported")
LATE = "job_late_gpus"

Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class _Holdings:
    """The jobs of GPUs: `gpus` are columns of the store, `job` numbers among `entities`.

    `seen_s`: the newest data of a GPU; infinite for one that is to end.
    """

    gpus: Indices
    job: Indices
    share: Doubles
    first_seen_s: Doubles
    seen_s: Doubles
    nodes: Indices
    entities: Sequence[Entity]
    columns: Indices

    def of(self, jobs: Flags, rows: Flags) -> _Holdings:
        """Some of the jobs, of which each has at least one of the rows."""
        return _Holdings(
            self.gpus[rows],
            (np.cumsum(jobs) - 1)[self.job[rows]],
            self.share[rows],
            self.first_seen_s[rows],
            self.seen_s[rows],
            self.nodes[rows],
            [self.entities[number] for number in np.flatnonzero(jobs).tolist()],
            self.columns[jobs],
        )


class FleetJobs:
    """Owned by one thread. The step of the store has to be the interval of the agents."""

    def __init__(
        self,
        store: Store,
        settings: JobFigureSettings | None = None,
        fleet: FleetState | None = None,
    ) -> None:
        self._store = store
        self._figures = ReportedFigures()
        self._followed = False
        self._seen: dict[str, Indices] = {}
        lateness_s = (settings or JobFigureSettings()).allowed_lateness_s
        self._most_late = max(1, math.ceil(lateness_s / store.step_s))
        self._most_steps = max(MOST_STEPS, self._most_late)
        self._fleet = fleet or FleetState.open(None)
        self._late = LateTime(store)
        self._done: int | None = None
        self._published: dict[int, set[str]] = {}
        self._described: dict[str, tuple[Entity, int, float]] = {}
        self._ended: dict[str, Entity] = {}
        self.held: frozenset[str] = frozenset()
        """The jobs that hold GPUs, as of the last call."""

    def tick(self, now_s: float) -> list[Observation]:
        """What is known by now and was not published yet.

        After a pause, at most `MOST_STEPS` of the steps.
        """
        last = math.floor(now_s / self._store.step_s + 1e-9) - 1
        with self._store.reading():
            held = self._held(now_s)
            reports = self._reports(last * self._store.step_s) if held else {}
            found = self._steps(last, held, reports) if held else []
            late = self._late.observations(now_s)
        return [*found, *self._totals(now_s, held), *late]

    def _steps(self, last: int, held: _Holdings, reports: Reports) -> list[Observation]:
        """The steps of which something is open; those whose time is over end."""
        over = last - self._most_late + 1
        done = last - 1 if self._done is None else max(self._done, last - self._most_steps)
        if done > last:  # the clock was set back: begin anew rather than wait for it to catch up
            done = last if done - last > self._most_steps else done
            self._published.clear()
        found = []
        for step in range(done + 1, last + 1):
            found += self._of_step(step, held, reports, is_over=step <= over)
        self._done = max(done, over)
        self._published = {s: jobs for s, jobs in self._published.items() if s > self._done}
        return found

    def _of_step(
        self, step: int, held: _Holdings, reports: Reports, *, is_over: bool
    ) -> list[Observation]:
        """The jobs of one step that are due."""
        published = self._published.setdefault(step, set())
        due = np.array([entity.id not in published for entity in held.entities], np.bool_)
        if not due.any():
            return []
        window = Window((step - 1) * self._store.step_s, step * self._store.step_s)
        ofu = self._row("ofu", window)[held.gpus]
        there = (held.first_seen_s < window.end_s) | ~np.isnan(ofu)
        late = there & (held.seen_s <= window.end_s - (1 - SLACK_STEPS) * self._store.step_s)
        count = len(held.entities)
        due &= np.bincount(held.job, there, count) > 0
        if not is_over:
            due &= np.bincount(held.job, late, count) == 0
        if not due.any():
            return []
        rows = there & due[held.job]
        chosen = held.of(due, rows)
        published.update(entity.id for entity in chosen.entities)
        self._late.count(chosen.nodes, chosen.share * late[rows] * self._store.step_s)
        found = self._marked(chosen, ofu[rows], late[rows], window)
        jobs = [(entity, window) for entity in chosen.entities]
        return observations(jobs, found, reports)

    def _marked(self, held: _Holdings, ofu: Doubles, late: Flags, window: Window) -> JobFigures:
        """The figures of jobs, with the number of GPUs that are late."""
        length_s = np.full(len(held.gpus), self._store.step_s)
        limit = self._row("flop_limit", window)[held.gpus]
        found = figures(GpuRows(held.job, held.share, length_s, ofu, limit), len(held.entities))
        counts = np.bincount(held.job, held.share * late, len(held.entities))
        return JobFigures({**found.gauges, LATE: counts.astype(np.float64)}, found.peak)

    def _totals(self, now_s: float, held: _Holdings | None) -> list[Observation]:
        """The sums by now, of the jobs that are there or ended a few minutes ago."""
        window = Window(now_s - self._store.step_s, now_s)
        known = {entity.id: entity for entity in held.entities} if held else {}
        self.held = frozenset(known)
        times = self._fleet.times.totals(now_s - KEPT_S, TOTALS)
        silent = {
            job: self._fleet.times.totals_of(job, TOTALS) for job in known if job not in times
        }
        times |= {job: time for job, time in silent.items() if time is not None}
        self._ended = {
            job: known.get(job) or self._ended.get(job) or job_entity(job, [], "fleet")
            for job in times
        }
        return [total(self._ended[job], window, time) for job, time in times.items()]

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
        seen_s = self._seen_s()[gpus]
        nodes = self._store.membership.nodes(len(slots))[gpus]
        first_s = slots.first_seen_s[gpus]
        return _Holdings(gpus, job, share, first_s, seen_s, nodes, entities, jobs)

    def _seen_s(self) -> Doubles:
        """The newest data of each GPU; nobody waits for one whose series ended."""
        slots = self._store.slots("gpu")
        seen_s = slots.last_seen_s[: len(slots)].copy()
        ended = (slots.find(id_) for id_ in self._fleet.endings.ids("gpu"))
        seen_s[[column for column in ended if column is not None]] = np.inf
        return seen_s

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
        first = round(start_s / step_s) + 1
        for row, column in np.argwhere(self._news(key, first, rows)).tolist():
            entity = slots.entity(column)
            if entity is not None:
                time_s = (first + row) * step_s
                self._figures.add(entity.id, key, float(rows[row, column]), time_s)

    def _news(self, key: str, first: int, rows: NDArray[np.float32]) -> NDArray[np.bool_]:
        """Which values are newer than what was seen of their job; `first`: the step of a row."""
        steps = first + np.arange(len(rows))[:, None]
        seen = np.full(rows.shape[1], -1, np.intp)
        known = self._seen.get(key, seen)[: len(seen)]
        # What is ahead of the window was seen before the clock was set back.
        seen[: len(known)] = np.where(known < first + REPORT_S / self._store.step_s, known, -1)
        news = _newest(rows) & (steps > seen)
        self._seen[key] = np.maximum(seen, np.where(news, steps, -1).max(axis=0, initial=-1))
        return news


def _newest(rows: NDArray[np.float32]) -> NDArray[np.bool_]:
    """Which are the last two values of each column: between them lies what the last is about."""
    known = ~np.isnan(rows)
    rank = np.cumsum(known[::-1], axis=0)[::-1]
    return known & (rank <= 2)  # noqa: PLR2004 - as the docstring says
