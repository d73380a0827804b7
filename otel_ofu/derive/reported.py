"""What jobs report of themselves -> the figures that stand at an instant.

Enters: values by job and key, with the time at which they came. Leaves: by job those that are not
out of date, each until the next report of its kind is due.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from otel_ofu.model.report_interval import LEAST_S, MOST_S, ReportInterval

# Starting values: what a log or a client makes up fills no memory.
MOST_JOBS = 65_536
MOST_KEYS = 16


@dataclass(slots=True)
class _Figure:
    value: float = 0.0
    interval: ReportInterval = field(default_factory=ReportInterval)


class ReportedFigures:
    """Belongs to one thread. Beyond `MOST_JOBS` the job that came first makes way."""

    def __init__(self) -> None:
        self._jobs: dict[str, dict[str, _Figure]] = {}

    def __len__(self) -> int:
        return len(self._jobs)

    def add(self, job: str, key: str, value: float, time_s: float) -> float | None:
        """Takes a figure. Returns since when it speaks (Unix seconds).

        One that is older than the last is no news; older than an hour, the clock was set back. None
        when it is not taken, because the job has `MOST_KEYS` others.
        """
        figure = self._figure(job, key)
        if figure is None:
            return None
        if figure.interval.last_s > time_s + MOST_S:
            figure.interval = ReportInterval()
        if time_s >= figure.interval.last_s:
            figure.value = value
        return figure.interval.add(time_s)

    def at(self, now_s: float) -> dict[str, dict[str, float]]:
        """By job, the figures that stand now. Jobs that are silent for hours are forgotten.

        So are figures from ahead of the clock, which was set back.
        """
        found, old = {}, []
        for job, figures in self._jobs.items():
            standing = _standing(figures, now_s)
            if standing:
                found[job] = standing
            elif not any(_is_recent(figure, now_s) for figure in figures.values()):
                old.append(job)
        for job in old:
            del self._jobs[job]
        return found

    def _figure(self, job: str, key: str) -> _Figure | None:
        figures = self._jobs.get(job)
        if figures is None:
            if len(self._jobs) >= MOST_JOBS:
                del self._jobs[next(iter(self._jobs))]
            figures = self._jobs[job] = {}
        figure = figures.get(key)
        if figure is None and len(figures) < MOST_KEYS:
            figure = figures[key] = _Figure()
        return figure


def _is_recent(figure: _Figure, now_s: float) -> bool:
    return now_s - 2 * MOST_S <= figure.interval.last_s <= now_s + LEAST_S


def _standing(figures: Mapping[str, _Figure], now_s: float) -> dict[str, float]:
    ahead_s = now_s + LEAST_S
    return {
        key: figure.value
        for key, figure in figures.items()
        if figure.interval.until_s >= now_s and figure.interval.last_s <= ahead_s
    }
