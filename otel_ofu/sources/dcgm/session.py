"""One life of a connection: what is there, what is watched, and every new sample of it.

Enters: a `HostEngine`, and what to read how often. Leaves: samples by target, and the topology
they belong to. EngineError means that the session is over and `close` is due.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence

from otel_ofu.model import Gap, Trouble
from otel_ofu.model.clock import Clock
from otel_ofu.sources.dcgm import codes, inventory
from otel_ofu.sources.dcgm.codes import BlankKind, DcgmTrouble, blank_reason
from otel_ofu.sources.dcgm.engine import EngineError, EngineWatch, Entity, HostEngine, SampleHistory
from otel_ofu.sources.dcgm.fields import (
    CLOCKS,
    XID,
    absent_at,
    has_history,
    has_level,
    is_profiling,
)
from otel_ofu.sources.dcgm.inventory import DcgmUnit
from otel_ofu.sources.dcgm.watch import (
    FATAL,
    EntityGroup,
    FieldGroup,
    Watcher,
    entity_groups,
    known_fields,
)
from otel_ofu.sources.dcgm.wire import FUTURE_S, DcgmSample, DcgmTarget, GpuProfiling, StartRequest

RESCAN_S = 60.0
"""Between two checks which GPUs and MIG instances there are. Starting value."""

_BACK_US = 60_000_000
"""How far back (microseconds) samples are asked for where the time of the last read is unknown: of
XIDs after a start, of all after the engine's clock stepped back. Starting value."""

_OLD_CLIENT = "client and host engine have different versions"

_MOST = 1024
"""New samples of one field in one read: those of 100 s where another client watches at 0.1 s."""

_Key = tuple[Entity, int]
_Rows = list[tuple[Entity, DcgmSample]]


class RecentSamples:
    """New samples by entity and field, oldest first; a sample is recognised by its time."""

    def __init__(self) -> None:
        self._last: dict[_Key, DcgmSample] = {}

    def rows(self, found: Iterable[tuple[Entity, DcgmSample]]) -> dict[Entity, list[DcgmSample]]:
        """What is new, by entity; where nothing is, the last sample as it stands."""
        fresh: dict[_Key, deque[DcgmSample]] = {}
        for entity, sample in found:
            key = (entity, sample.field)
            last = self._last.get(key)
            if last is None or (sample.ts_us != last.ts_us and sample.status != codes.NO_DATA):
                fresh.setdefault(key, deque(maxlen=_MOST)).append(sample)
                self._last[key] = sample
        rows: dict[Entity, list[DcgmSample]] = {}
        for key, sample in self._last.items():
            rows.setdefault(key[0], []).extend(fresh.get(key) or [sample])
        return rows


class GroupReader:
    """Reads what is new of an entity group. EngineError only for what is `FATAL`."""

    def __init__(self, engine: HostEngine, clock: Clock) -> None:
        self._engine = engine
        self._clock = clock

    def rows(self, group: EntityGroup) -> _Rows:
        """The newest sample of each field, or all since the last read where each counts."""
        newest = self._newest(group, group.newest_only)
        rows: _Rows = []
        for field_group in group.field_groups:
            if field_group.history is not None:
                rows += self._since(group, field_group, field_group.history, newest)
        return self._without_future(group, newest) + rows

    def _newest(self, group: EntityGroup, fields: Sequence[int]) -> _Rows:
        if not fields:
            return []
        found = self._engine.latest(group.entities, fields)
        return [(e, s) for e, row in zip(group.entities, found, strict=True) for s in row]

    def _since(
        self, group: EntityGroup, field_group: FieldGroup, history: EngineWatch, newest: _Rows
    ) -> _Rows:
        since_us, field_group.since_us = field_group.since_us, None
        try:
            found = self._found(field_group, history, since_us, newest)
        except EngineError as error:
            if error.code in codes.VERSION_CODES:
                # A client of 3.x cannot list the members of a group of 4.x, but reads its samples.
                field_group.history, field_group.left_history = None, True
            elif error.code in FATAL:
                raise
            # One field that one entity may not read fails the whole call; here it has a status.
            fields = [f for f in field_group.fields if has_history(f) and f != XID]
            return [] if since_us is None else self._newest(group, fields)
        field_group.since_us = found.next_us
        return found.rows

    def _found(
        self, field_group: FieldGroup, history: EngineWatch, since_us: int | None, newest: _Rows
    ) -> SampleHistory:
        if since_us is None:
            return self._begin(field_group, history, newest)
        found = self._engine.history(history, since_us)
        return self._after_step(history, found) if found.next_us < since_us else found

    def _begin(self, field_group: FieldGroup, history: EngineWatch, newest: _Rows) -> SampleHistory:
        """Continue after the newest samples; of XIDs, all that the engine still has."""
        times = [s.ts_us for _, s in newest if s.field in field_group.fields and s.ts_us]
        since_us = max(times, default=0) + 1
        if XID not in field_group.fields:
            return SampleHistory([], since_us)
        found = self._engine.history(history, max(1, since_us - _BACK_US))
        return SampleHistory([(e, s) for e, s in found.rows if s.field == XID], since_us)

    def _after_step(self, history: EngineWatch, found: SampleHistory) -> SampleHistory:
        """The engine's clock stepped back: what is newest before its present time."""
        now_us = found.next_us
        back = self._engine.history(history, now_us - _BACK_US).rows
        newest = _newest_until(now_us, back)
        return SampleHistory([(entity, s) for (entity, _), s in newest.items()], now_us)

    def _without_future(self, group: EntityGroup, rows: _Rows) -> _Rows:
        """`rows` with the newest sample before the engine's time in place of each from the future.

        For when the engine's clock stepped back: its cache keeps answering the sample from the
        future, while newer ones lie before it.
        """
        now_us = max((g.since_us for g in group.field_groups if g.since_us), default=0)
        now_us = now_us or round(self._clock.now_s() * 1e6)
        limit_us = now_us + round(FUTURE_S * 1e6)
        if not any(s.ts_us > limit_us for _, s in rows):
            return rows
        newest: dict[_Key, DcgmSample] = {}
        for field_group in group.field_groups:
            if field_group.watch is not None:
                back = self._engine.history(field_group.watch, now_us - _BACK_US).rows
                newest |= _newest_until(limit_us, back)
        return [(e, newest.get((e, s.field), s) if s.ts_us > limit_us else s) for e, s in rows]


def _newest_until(limit_us: int, rows: _Rows) -> dict[_Key, DcgmSample]:
    return {(e, s.field): s for e, s in rows if s.ts_us <= limit_us}


class DcgmSession:
    """Used by one thread, like the engine that it owns."""

    def __init__(self, engine: HostEngine, start: StartRequest, clock: Clock) -> None:
        self._engine = engine
        self._start = start
        self._clock = clock
        self._watcher = Watcher(engine, clock)
        self._reader = GroupReader(engine, clock)
        self._recent = RecentSamples()
        self._inventory = inventory.take(engine)
        self._known = frozenset(known_fields(engine, start.fields))
        self.entity_groups = entity_groups(
            self._inventory.units, [f for f in start.fields if f in self._known], start
        )
        for group in self.entity_groups:
            self._watcher.start(group)
        self.watched_since_s = clock.now_s()
        self._rescan_at_s = clock.monotonic_s() + RESCAN_S
        self.paused = False

    def targets(self) -> list[DcgmTarget]:
        """All targets with what is not read of them, in the order of `read`."""
        groups = {u.entity: g for g in self.entity_groups for u in g.units}
        return [self._target(u, groups) for u in self._inventory.units]

    def read(self) -> list[list[DcgmSample]]:
        """Every sample that is new since the last read, oldest first, for each target."""
        samples = self._recent.rows(
            row for group in self.entity_groups for row in self._reader.rows(group)
        )
        self.paused = self._is_paused(samples)
        return [list(self._of(u, samples)) for u in self._inventory.units]

    def changed(self) -> bool:
        """Try again what was refused; True when `targets` differs from before."""
        return self._watcher.retry(self.entity_groups)

    def outdated(self) -> bool:
        """Whether GPUs or MIG instances came or went; checked once a minute."""
        now_s = self._clock.monotonic_s()
        if now_s < self._rescan_at_s:
            return False
        self._rescan_at_s = now_s + RESCAN_S
        return inventory.layout(self._engine) != self._inventory.layout

    def troubles(self) -> list[Trouble]:
        """What is refused or left out at present."""
        troubles = list(self._inventory.troubles)
        for group in self.entity_groups:
            for field_group in group.field_groups:
                troubles += _group_troubles(group, field_group)
        return troubles

    def profiling(self) -> list[GpuProfiling]:
        """The state of profiling of every GPU and MIG instance."""
        return [
            _profiling_of(unit, group, field_group)
            for group in self.entity_groups
            for field_group in group.field_groups
            if field_group.profiling
            for unit in group.units
        ]

    def close(self) -> None:
        self._engine.close()

    def _is_paused(self, samples: dict[Entity, list[DcgmSample]]) -> bool:
        """Asked of the engine only when a profiling value is blank without a reason."""
        blank = any(
            is_profiling(s.field) and not s.status and blank_reason(s.value) is BlankKind.PLAIN
            for row in samples.values()
            for s in row
        )
        try:
            return blank and self._engine.profiling_paused()
        except EngineError as error:
            if error.code == codes.CONNECTION_LOST:
                raise
            return False  # an engine that cannot answer: the values stay blank without a reason

    def _of(self, unit: DcgmUnit, samples: dict[Entity, list[DcgmSample]]) -> Iterator[DcgmSample]:
        yield from samples.get(unit.entity, ())
        if unit.entity != unit.gpu:
            yield from (s for s in samples.get(unit.gpu, ()) if s.field in CLOCKS)

    def _target(self, unit: DcgmUnit, groups: dict[Entity, EntityGroup]) -> DcgmTarget:
        own, gpu = groups[unit.entity], groups.get(unit.gpu)
        troubles = {f: t for f in self._start.fields if (t := self._trouble(f, unit, own, gpu))}
        gaps = {f: Gap(t.reason, t.detail) for f, t in troubles.items()}
        return DcgmTarget(device=unit.device, gaps=gaps, backend=own.backend)

    def _trouble(
        self, field_id: int, unit: DcgmUnit, own: EntityGroup, gpu: EntityGroup | None
    ) -> DcgmTrouble | None:
        if field_id not in self._known:
            return codes.trouble(-13)
        group = own
        if not has_level(field_id, unit.entity[0]):
            if gpu is None or field_id not in CLOCKS:
                return absent_at(unit.entity[0])
            group = gpu
        return _trouble_in(group, field_id)


def _trouble_in(group: EntityGroup, field_id: int) -> DcgmTrouble | None:
    for field_group in group.field_groups:
        if field_id in field_group.left:
            return field_group.left[field_id]
        if field_id in field_group.fields:
            return field_group.trouble
    return None


def _group_troubles(group: EntityGroup, field_group: FieldGroup) -> Iterator[Trouble]:
    what = "profiling counters" if field_group.profiling else f"fields {field_group.fields}"
    refused = field_group.trouble
    if refused:
        remedy = f" ({refused.remedy})" if refused.remedy else ""
        yield Trouble(group.model, refused.reason.value, f"no {what}: {refused.detail}{remedy}")
    if field_group.left_history:
        fields = [f for f in field_group.fields if has_history(f)]
        detail = f"only the newest sample of a tick is read of fields {fields}: {_OLD_CLIENT}"
        yield Trouble(group.model, "version_mismatch", f"{detail} ({codes.MATCH_VERSIONS})")
    for detail in dict.fromkeys(t.detail for t in field_group.left.values()):
        fields = [f for f, t in field_group.left.items() if t.detail == detail]
        reason = field_group.left[fields[0]].reason.value
        yield Trouble(group.model, reason, f"without profiling fields {fields}: {detail}")


def _profiling_of(unit: DcgmUnit, group: EntityGroup, field_group: FieldGroup) -> GpuProfiling:
    trouble = field_group.trouble
    left = ", ".join(map(str, field_group.left))
    return GpuProfiling(
        uuid=unit.device.uuid,
        model=unit.device.model,
        backend=group.backend if trouble is None else "none",
        ok=trouble is None,
        reason=trouble.detail if trouble else left and f"without fields {left}",
        remedy=trouble.remedy if trouble else "",
    )
