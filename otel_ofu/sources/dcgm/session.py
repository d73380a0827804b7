"""One life of a connection: what is there, what is watched, and every new sample of it.

Enters: a `HostEngine`, and what to read how often. Leaves: samples by target, and the topology
they belong to. EngineError means that the session is over and `close` is due.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence

from otel_ofu.model import Gap
from otel_ofu.model.clock import Clock
from otel_ofu.sources.dcgm import codes, inventory
from otel_ofu.sources.dcgm.codes import BlankKind, DcgmTrouble, blank_reason
from otel_ofu.sources.dcgm.engine import EngineError, EngineWatch, Entity, HostEngine
from otel_ofu.sources.dcgm.fields import CLOCKS, absent_at, has_level, is_profiling
from otel_ofu.sources.dcgm.inventory import DcgmUnit
from otel_ofu.sources.dcgm.watch import (
    EntityGroup,
    FieldGroup,
    Watcher,
    entity_groups,
    known_fields,
)
from otel_ofu.sources.dcgm.wire import FUTURE_S, DcgmSample, DcgmTarget, GpuProfiling, StartRequest

RESCAN_S = 60.0
"""Between two checks which GPUs and MIG instances there are. Starting value."""

_HISTORY_S = 60.0
"""How far back a sample is looked for after the engine's clock stepped back. Starting value."""


_MOST = 128
"""Samples kept of one field when nobody reads: two minutes of the fastest sensible clock."""

_Key = tuple[Entity, int]


class RecentSamples:
    """New samples by entity and field, oldest first; a sample is recognised by its time."""

    def __init__(self) -> None:
        self._latest: dict[_Key, DcgmSample] = {}
        self._kept: dict[_Key, deque[DcgmSample]] = {}

    def add(self, entity: Entity, samples: Sequence[DcgmSample]) -> None:
        for sample in samples:
            key = (entity, sample.field)
            before = self._latest.get(key)
            if before is None or before.ts_us != sample.ts_us:
                self._kept.setdefault(key, deque(maxlen=_MOST)).append(sample)
            self._latest[key] = sample

    def take(self) -> dict[Entity, list[DcgmSample]]:
        """What came since the last call, by entity; where nothing did, the sample as it stands."""
        rows: dict[Entity, list[DcgmSample]] = {}
        for key, sample in self._latest.items():
            rows.setdefault(key[0], []).extend(self._kept.get(key) or [sample])
        self._kept = {}
        return rows


def replace_future(
    engine: HostEngine,
    watches: Sequence[EngineWatch],
    rows: dict[Entity, list[DcgmSample]],
    now_s: float,
) -> None:
    """Replace, in `rows`, samples from the future by the newest that lies before `now_s`.

    For when the engine's clock stepped back: its cache keeps answering the sample from the future,
    while newer ones lie before it.
    """
    limit_us = round((now_s + FUTURE_S) * 1e6)
    if not any(s.ts_us > limit_us for row in rows.values() for s in row):
        return
    newest: dict[_Key, DcgmSample] = {}
    for watch in watches:
        for entity, sample in engine.history(watch, now_s - _HISTORY_S):
            key = (entity, sample.field)
            if sample.ts_us <= limit_us and sample.ts_us >= newest.get(key, sample).ts_us:
                newest[key] = sample
    for entity, row in rows.items():
        rows[entity] = [newest.get((entity, s.field), s) if s.ts_us > limit_us else s for s in row]


class DcgmSession:
    """Used by one thread, like the engine that it owns."""

    def __init__(self, engine: HostEngine, start: StartRequest, clock: Clock) -> None:
        self._engine = engine
        self._start = start
        self._clock = clock
        self._watcher = Watcher(engine, clock)
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
        self._means_at_s = 0.0
        self.paused = False

    def targets(self) -> list[DcgmTarget]:
        """All targets with what is not read of them, in the order of `read`."""
        groups = {u.entity: g for g in self.entity_groups for u in g.units}
        return [self._target(u, groups) for u in self._inventory.units]

    def poll(self) -> None:
        """Keep the samples that would be gone by the next read."""
        now_s = self._clock.monotonic_s()
        with_means = now_s >= self._means_at_s
        if with_means:
            self._means_at_s = now_s + self._start.watch_s
        for group in self.entity_groups:
            fields = group.fast(with_means=with_means)
            if fields:
                self._keep(self._latest(group, fields))

    def read(self) -> list[list[DcgmSample]]:
        """Every sample that is new since the last read, oldest first, for each target."""
        for group in self.entity_groups:
            if group.watched:
                rows = self._latest(group, group.watched)
                watches = [s.watch for s in group.field_groups if s.watch]
                replace_future(self._engine, watches, rows, self._clock.now_s())
                self._keep(rows)
        self._means_at_s = self._clock.monotonic_s() + self._start.watch_s
        samples = self._recent.take()
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

    def notes(self) -> Iterator[str]:
        """What an operator should read once."""
        yield from self._inventory.notes
        for group in self.entity_groups:
            for field_group in group.field_groups:
                yield from _group_notes(group, field_group)

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

    def _latest(self, group: EntityGroup, fields: Sequence[int]) -> dict[Entity, list[DcgmSample]]:
        entities = group.entities
        return dict(zip(entities, self._engine.latest(entities, fields), strict=True))

    def _keep(self, rows: dict[Entity, list[DcgmSample]]) -> None:
        for entity, samples in rows.items():
            self._recent.add(entity, samples)

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
        return DcgmTarget(device=unit.device, gaps=gaps)

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


def _group_notes(group: EntityGroup, field_group: FieldGroup) -> Iterator[str]:
    what = "profiling counters" if field_group.profiling else f"fields {field_group.fields}"
    if field_group.trouble:
        remedy = f" ({field_group.trouble.remedy})" if field_group.trouble.remedy else ""
        yield f"{group.model}: no {what}: {field_group.trouble.detail}{remedy}"
    for detail in dict.fromkeys(t.detail for t in field_group.left.values()):
        fields = [f for f, t in field_group.left.items() if t.detail == detail]
        yield f"{group.model}: without profiling fields {fields}: {detail}"


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
