"""Cumulative seconds of each GPU with each job that holds it: allocated, observed, effective, lost.

Enters: the observations of a round. Leaves: the same with their seconds, and for some minutes those
of GPUs whose job ended, with the seconds alone. Each counter is exported as 0 in its first round,
because a series is seen to grow only between two of its points; what was counted meanwhile follows
in the next. A restart goes on from the file; a job that holds the GPU before and after held it in
between. All totals of jobs are sums of what these counters gain.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec

from otel_ofu.derive.job_figures import BUSY_KEYS, JobFigureSettings
from otel_ofu.derive.ladder import KINDS, LOSS, LOST_TIME, MERGED
from otel_ofu.files.sqlite import Change, FileSchema, Row, Rows, SqliteTables, Table
from otel_ofu.model import Attribute, Entity, Observation, Window

log = logging.getLogger(__name__)

ALLOCATED, OBSERVED = "gpu_time_allocated", "gpu_time_observed"
IDLE, BELOW_TARGET = "gpu_time_idle", "gpu_time_below_target"
INTEGRALS: Mapping[str, str] = {
    "ofu": "gpu_time_effective",
    **{f"{LOSS}:{kind}": f"{LOST_TIME}:{kind}" for kind in (*KINDS, *MERGED)},
}
"""By key of a share of time: the counter of its integral. A negative share is taken from what the
counter gains next, so that it never falls."""
FIRST = (
    *(ALLOCATED, OBSERVED, INTEGRALS["ofu"], IDLE, BELOW_TARGET),
    *(f"{LOST_TIME}:{kind}" for kind in KINDS),
)
"""The counters that begin with their entity; others begin with their first value."""
SHARE = "owner_share"

KEPT_S = 300.0
"""Starting value: a scrape and an evaluation every minute or two still find the last value."""
# Starting values: owners are polled every 30 s; an agent is seldom away for a day, and a name of a
# pod may come again.
_OWNERS_S = 120.0
_LONGEST_ABSENCE_S = 86_400.0


def time_shares(values: Mapping[str, float], settings: JobFigureSettings) -> dict[str, float]:
    """What a second of the window adds to each counter."""
    shares = {time: values[key] for key, time in INTEGRALS.items() if key in values}
    shares[ALLOCATED] = 1.0
    busy = next((values[key] for key in BUSY_KEYS if key in values), None)
    if busy is not None:
        shares[IDLE] = float(busy < settings.idle_below)
    if (ofu := values.get("ofu")) is not None:
        shares[OBSERVED] = 1.0
        shares[BELOW_TARGET] = max(0.0, 1.0 - ofu / settings.target_ofu)
    return shares


@dataclass(slots=True)
class _Counters:
    """One GPU with one job. `until_s`: the end of what was counted; `begun`: exported before.

    `held`: whether the job has the GPU as far as is known. `restored`: not seen since the start.
    """

    entity: Entity
    start_s: float
    until_s: float
    held: bool = True
    restored: bool = False
    seconds: dict[str, float] = field(default_factory=lambda: dict.fromkeys(FIRST, 0.0))
    owed: dict[str, float] = field(default_factory=dict)
    begun: set[str] = field(default_factory=set)

    def add(self, shares: Mapping[str, float], window: Window, share: float) -> None:
        """Counts a window; time that was counted before is not counted again."""
        self._resume(window, share)
        fresh_s = window.end_s - max(window.start_s, self.until_s)
        self.until_s = max(self.until_s, window.end_s)
        for key, part in shares.items():
            gained = max(0.0, fresh_s) * share * part + self.owed.pop(key, 0.0)
            if gained < 0:
                self.owed[key] = gained
            self.seconds[key] = self.seconds.get(key, 0.0) + max(0.0, gained)

    def _resume(self, window: Window, share: float) -> None:
        """After time of which no window is: a restart, a pause, or a clock that was set back."""
        away_s = window.start_s - self.until_s
        if self.held and 0 < away_s <= _LONGEST_ABSENCE_S:
            self.seconds[ALLOCATED] += away_s * share
        if away_s > 0 or window.end_s < self.until_s - KEPT_S:
            self.until_s = window.start_s
        self.restored, self.held = False, True

    def exported(self) -> dict[str, float]:
        """The counters, with 0 for those that were not exported yet."""
        values = {k: v if k in self.begun else 0.0 for k, v in self.seconds.items()}
        self.begun.update(values)
        return values

    def observation(self, window: Window) -> Observation:
        values = self.exported()
        return Observation(
            self.entity, window, values, starts_s=dict.fromkeys(values, self.start_s)
        )


@dataclass(frozen=True, slots=True)
class CountedRound:
    """`live`: the observations of the round with their seconds; `kept`: those that ended."""

    live: Sequence[Observation]
    kept: Sequence[Observation]


class GpuTimeMeter:
    """Owned by one thread. `path` None keeps nothing over a restart."""

    def __init__(self, path: Path | None = None, settings: JobFigureSettings | None = None) -> None:
        self._settings = settings or JobFigureSettings()
        self._file = SqliteTables(path, _FORM, _load, log)
        self._counters = self._file.loaded
        self._started_s: float | None = None

    def count(self, observations: Sequence[Observation], now_s: float) -> CountedRound:
        """One round, at `now_s` (Unix seconds). What it leaves is in the file by then."""
        self._started_s = now_s if self._started_s is None else self._started_s
        live = [self._counted(seen) if _has_job(seen) else seen for seen in observations]
        seen = {seen.entity.id: _gpu(seen.entity) for seen in observations if _has_job(seen)}
        away = {id_: c for id_, c in self._counters.items() if id_ not in seen}
        ended = self._end(away.values(), set(seen.values()), now_s)
        gone = [id_ for id_, c in away.items() if not c.held and _is_over(c, now_s)]
        for id_ in gone:
            del self._counters[id_], away[id_]
        changed = [*(self._counters[id_] for id_ in seen), *ended]
        self._file.save(Change(_TABLE, map(_row, changed), [(id_,) for id_ in gone]))
        kept = [counters.observation(Window(now_s, now_s)) for counters in away.values()]
        return CountedRound(live, kept)

    def close(self) -> None:
        self._file.close()

    def _counted(self, seen: Observation) -> Observation:
        counters = self._counters.get(seen.entity.id)
        if counters is None:
            start_s = seen.window.start_s
            counters = self._counters[seen.entity.id] = _Counters(seen.entity, start_s, start_s)
        counters.entity = seen.entity
        shares = time_shares(seen.values, self._settings)
        counters.add(shares, seen.window, seen.values.get(SHARE, 1.0))
        counted = counters.observation(seen.window)
        return replace(
            seen,
            values={**seen.values, **counted.values},
            starts_s={**seen.starts_s, **counted.starts_s},
        )

    def _end(
        self, away: Iterable[_Counters], others: Collection[str], now_s: float
    ) -> list[_Counters]:
        """Those whose job does not hold the GPU any more; `others`: GPUs that have a job now."""
        started_s = now_s if self._started_s is None else self._started_s
        # Who holds a GPU may not be known yet in the first rounds after a start.
        is_settled = now_s - started_s > _OWNERS_S
        ended = [
            counters
            for counters in away
            if counters.held
            and (is_settled or not counters.restored or _gpu(counters.entity) in others)
        ]
        for counters in ended:
            counters.held = False
        return ended


def _is_over(counters: _Counters, now_s: float) -> bool:
    """Whether it was exported for long enough after its end; also if the clock was set back."""
    return not -KEPT_S <= now_s - counters.until_s <= KEPT_S


def _has_job(seen: Observation) -> bool:
    return seen.entity.kind == "gpu" and bool(seen.entity.attributes.get("ofu.job.id"))


def _gpu(entity: Entity) -> str:
    return str(entity.attributes.get("hw.id", entity.id))


_SCHEMA = """
CREATE TABLE gpu_time (
  entity TEXT PRIMARY KEY, start_s REAL NOT NULL, until_s REAL NOT NULL,
  held INTEGER NOT NULL, seconds BLOB NOT NULL, owed BLOB NOT NULL, attributes BLOB NOT NULL
) WITHOUT ROWID;
"""
_FORM = FileSchema(_SCHEMA, 1, "seconds of GPUs")
_TABLE = Table("gpu_time", ("entity",), tuple[str, float, float, int, bytes, bytes, bytes])
_SECONDS = msgspec.json.Decoder(dict[str, float])
_ATTRIBUTES = msgspec.json.Decoder(dict[str, Attribute])


def _row(counters: _Counters) -> Row:
    encode = msgspec.json.encode
    return (
        counters.entity.id,
        counters.start_s,
        counters.until_s,
        int(counters.held),
        encode(counters.seconds),
        encode(counters.owed),
        encode(dict(counters.entity.attributes)),
    )


def _load(rows: Rows) -> dict[str, _Counters]:
    return {row[0]: _restored(row) for row in rows(_TABLE)}


def _restored(row: Row) -> _Counters:
    id_, start_s, until_s, held, seconds, owed, attributes = row
    entity = Entity("gpu", id_, _ATTRIBUTES.decode(attributes))
    known = _SECONDS.decode(seconds)
    return _Counters(
        entity,
        start_s,
        until_s,
        held=bool(held),
        restored=True,
        seconds=known,
        owed=_SECONDS.decode(owed),
        begun=set(known),
    )
