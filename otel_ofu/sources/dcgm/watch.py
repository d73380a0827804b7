"""What is watched on the engine: groups of entities, and the groups of fields watched on each.

Enters: an inventory and the wanted fields. Leaves: `EntityGroup`s, each small enough for one group
of any engine and of one model (the engine judges profiling of a whole group by one member), whose
field groups have a running watch or the trouble why not; what is refused is tried again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, TypeVar

from otel_ofu.model import GapReason
from otel_ofu.model.clock import Clock
from otel_ofu.sources.dcgm import codes
from otel_ofu.sources.dcgm.codes import DcgmTrouble
from otel_ofu.sources.dcgm.engine import EngineError, EngineWatch, Entity, HostEngine
from otel_ofu.sources.dcgm.fields import (
    FAST,
    TENSOR_ACTIVE,
    XID,
    FieldChoice,
    attempts,
    backend,
    choose,
    has_history,
    has_level,
    is_profiling,
)
from otel_ofu.sources.dcgm.inventory import GROUP_SIZE, DcgmUnit, all_known
from otel_ofu.sources.dcgm.wire import StartRequest

_T = TypeVar("_T")

MAX_PROFILING_FIELDS = 64
MAX_FIELDS = 128
"""Both: what one watch may hold. Source: dcgm_structs.h, DCGM_PROF_MAX_NUM_FIELDS (3.x: 64) and
DCGM_MAX_FIELD_IDS_PER_FIELD_GROUP (128)."""
_PROBE_SIZE = 64
"""Fields of one question whether the engine knows them all. Starting value."""

RETRY_S = 60.0
"""Between two tries of what was refused: a profiler or an operator holds it for minutes."""

_KEEP_PERIODS = 6
_KEEP_S = 60.0
"""How long the engine keeps samples. Starting values: a read that comes two ticks late, or from a
new child, finds all that it missed."""

FATAL = frozenset(
    {
        codes.CONNECTION_LOST,
        codes.TIMEOUT,
        codes.LIMIT_REACHED,
        codes.DRIVER_NOT_LOADED,
        *codes.VERSION_CODES,
    }
)
"""Codes that are about the engine and not about the fields or GPUs that were asked for."""


@dataclass(slots=True)
class FieldGroup:
    """Fields of an entity group that stand or fall together.

    `watch` while they are watched; `trouble` while the engine refuses, with the time (monotonic,
    in seconds) of the next try. `left` holds what was given up so that the rest can be watched.
    `history` has those of which every sample counts, `since_us` from when on they are to be asked
    for, in the engine's time; None before the first read. `left_history` where the engine does not
    give it to this client.
    """

    fields: tuple[int, ...]
    period_s: float
    profiling: bool
    watch: EngineWatch | None = None
    history: EngineWatch | None = None
    since_us: int | None = None
    left_history: bool = False
    trouble: DcgmTrouble | None = None
    retry_at_s: float = 0.0
    left: dict[int, DcgmTrouble] = field(default_factory=dict)


@dataclass(slots=True)
class EntityGroup:
    """At most `GROUP_SIZE` entities of one model and level, in one group of the engine."""

    model: str
    units: tuple[DcgmUnit, ...]
    field_groups: list[FieldGroup]
    handle: Any = None
    backend: str = "none"

    @property
    def entities(self) -> list[Entity]:
        return [u.entity for u in self.units]

    @property
    def newest_only(self) -> list[int]:
        """Watched fields of which the newest sample is asked for: all but those with a history.

        Before its first read a history has no begin, so there the newest sample stands for it.
        """
        return [
            field_id
            for group in self.field_groups
            if group.watch
            for field_id in group.fields
            # Engines of 3.3 log an error each time that this field is asked for without an XID.
            if (field_id != XID or group.history is None)
            and (group.since_us is None or not has_history(field_id))
        ]


def entity_groups(
    units: Sequence[DcgmUnit], wanted: Sequence[int], start: StartRequest
) -> list[EntityGroup]:
    """The groups of an inventory; every wanted field is in a group of every level that has it."""
    ordered = sorted(units, key=lambda u: (u.device.model, u.entity[0]))
    found = []
    for (model, level), members in groupby(ordered, lambda u: (u.device.model, u.entity[0])):
        fields = [f for f in wanted if has_level(f, level)]
        found += [
            EntityGroup(model, chunk, list(_field_groups(fields, start)))
            for chunk in _chunks(tuple(members), GROUP_SIZE)
        ]
    return found


def _field_groups(fields: Sequence[int], start: StartRequest) -> Iterator[FieldGroup]:
    measured = tuple(f for f in fields if is_profiling(f))
    plain = tuple(f for f in fields if not is_profiling(f) and f not in FAST)
    if fast := tuple(f for f in fields if f in FAST):
        yield FieldGroup(fast, start.clock_s, profiling=False)
    for chunk in _chunks(plain, MAX_FIELDS):
        yield FieldGroup(chunk, start.watch_s, profiling=False)
    if measured:
        # One group: what is over the limit of a watch is given up, least important first.
        yield FieldGroup(measured, start.watch_s, profiling=True)


def _chunks(items: Sequence[_T], size: int) -> Iterator[tuple[_T, ...]]:
    for start in range(0, len(items), size):
        yield tuple(items[start : start + size])


def known_fields(engine: HostEngine, fields: Sequence[int]) -> list[int]:
    """Those of `fields` that the engine knows; asked one by one only if all at once fail."""
    known: list[int] = []
    for start in range(0, len(fields), _PROBE_SIZE):
        chunk = fields[start : start + _PROBE_SIZE]
        known += chunk if all_known(engine, chunk) else [f for f in chunk if all_known(engine, [f])]
    return known


class Watcher:
    """Watches entity groups on one engine. EngineError only for what is `FATAL`."""

    def __init__(self, engine: HostEngine, clock: Clock) -> None:
        self._engine = engine
        self._clock = clock

    def start(self, group: EntityGroup) -> None:
        """Create the group in the engine and try to watch each of its field groups."""
        group.handle = self._engine.group(group.entities)
        for field_group in group.field_groups:
            self._try(group, field_group)

    def retry(self, entity_groups: Iterable[EntityGroup]) -> bool:
        """Try again whatever is due; True if any of it is watched now or refused otherwise."""
        now_s = self._clock.monotonic_s()
        due = [
            (group, field_group)
            for group in entity_groups
            for field_group in group.field_groups
            if field_group.trouble and field_group.retry_at_s <= now_s
        ]
        before = [field_group.trouble for _, field_group in due]
        for group, field_group in due:
            self._try(group, field_group)
        return before != [field_group.trouble for _, field_group in due]

    def _try(self, group: EntityGroup, field_group: FieldGroup) -> None:
        try:
            if field_group.profiling:
                self._watch_profiling(group, field_group)
            else:
                self._watch(group, field_group, field_group.fields)
        except EngineError as error:
            if error.code in FATAL:
                raise
            field_group.trouble = codes.trouble(error.code, error.detail, self._engine.major())
            field_group.retry_at_s = self._clock.monotonic_s() + RETRY_S
        else:
            field_group.trouble = None

    def _watch_profiling(self, group: EntityGroup, field_group: FieldGroup) -> None:
        choice = self._choose(group, field_group)
        taken = choice.taken[:MAX_PROFILING_FIELDS]
        # Empty when the GPU has none of the counters: the engine answers why.
        for fields in attempts(taken or field_group.fields):
            try:
                self._watch(group, field_group, fields)
            except EngineError as error:
                if error.code != codes.MULTI_PASS or fields == (TENSOR_ACTIVE,):
                    raise
            else:
                self._give_up(field_group, choice, fields)
                return
        raise EngineError(codes.MULTI_PASS, "", "watch fields")

    def _choose(self, group: EntityGroup, field_group: FieldGroup) -> FieldChoice:
        unit = group.units[0]
        if unit.gpm:
            # All counters together; the engine's list of groups is fixed text here.
            group.backend = "gpm"
            return FieldChoice(field_group.fields, {})
        groups = self._engine.metric_groups(unit.gpu[1])
        group.backend = backend(groups, unit.device.architecture, unit.gpm)
        return choose(field_group.fields, groups)

    def _give_up(self, field_group: FieldGroup, choice: FieldChoice, kept: tuple[int, ...]) -> None:
        multi_pass = codes.trouble(codes.MULTI_PASS).detail
        field_group.left = {
            f: DcgmTrouble(GapReason.NOT_SUPPORTED, choice.left.get(f, multi_pass))
            for f in field_group.fields
            if f not in kept
        }
        field_group.fields = kept

    def _watch(self, group: EntityGroup, field_group: FieldGroup, fields: tuple[int, ...]) -> None:
        handle = self._engine.field_group(fields)
        keep_s = max(_KEEP_S, _KEEP_PERIODS * field_group.period_s)
        try:
            field_group.watch = self._engine.watch(
                group.handle, handle, field_group.period_s, keep_s
            )
        except EngineError as error:
            if error.code != codes.CONNECTION_LOST:
                self._engine.drop(None, handle)
            raise
        field_group.history = self._history(field_group.watch, fields)
        field_group.since_us = None

    def _history(self, watch: EngineWatch, fields: tuple[int, ...]) -> EngineWatch | None:
        """What a history is asked for with; a group of fields of its own if not all have one."""
        wanted = [f for f in fields if has_history(f)]
        if len(wanted) in {0, len(fields)}:
            return watch if wanted else None
        return EngineWatch(watch.group, self._engine.field_group(wanted))
