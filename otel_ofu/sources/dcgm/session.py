"""One life of a connection: what is there, what is watched, and every new sample of it.

Enters: an `Engine` and a `Plan`. Leaves: samples by target, and the topology they belong to.
EngineError means that the session is over and `close` is due.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import msgspec

from otel_ofu.model.clock import Clock
from otel_ofu.sources.dcgm import codes, inventory, profiling
from otel_ofu.sources.dcgm.answers import Entity
from otel_ofu.sources.dcgm.blanks import Blank, blank_reason
from otel_ofu.sources.dcgm.blocks import (
    CLOCKS,
    Block,
    Periods,
    Share,
    absent_at,
    blocks,
    has_level,
)
from otel_ofu.sources.dcgm.codes import Trouble
from otel_ofu.sources.dcgm.engine import Engine, EngineError
from otel_ofu.sources.dcgm.inventory import Unit
from otel_ofu.sources.dcgm.recent import Recent, unstick
from otel_ofu.sources.dcgm.watching import Watcher, known_fields
from otel_ofu.sources.dcgm.wire import GpuProfiling, Sample, StandingGap, Target

LOOK_AGAIN_S = 60.0
"""Between two looks at which GPUs and MIG instances there are."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What to read: fields in order of importance, and how often."""

    fields: tuple[int, ...]
    periods: Periods


class Session:
    """Used by one thread, like the engine that it owns."""

    def __init__(self, engine: Engine, plan: Plan, clock: Clock) -> None:
        self._engine = engine
        self._plan = plan
        self._clock = clock
        self._watcher = Watcher(engine, clock)
        self._recent = Recent()
        self._inventory = inventory.take(engine)
        self._known = frozenset(known_fields(engine, plan.fields))
        self.blocks = blocks(
            self._inventory.units, [f for f in plan.fields if f in self._known], plan.periods
        )
        for block in self.blocks:
            self._watcher.start(block)
        self.watched_since_s = clock.now_s()
        self._look_at_s = clock.monotonic_s() + LOOK_AGAIN_S
        self._means_at_s = 0.0
        self.paused = False

    def targets(self) -> list[Target]:
        """All targets with what is not read of them, in the order of `read`."""
        blocks = {u.entity: b for b in self.blocks for u in b.units}
        return [self._target(u, blocks) for u in self._inventory.units]

    def poll(self) -> None:
        """Keep the samples that would be gone by the next read."""
        now_s = self._clock.monotonic_s()
        with_means = now_s >= self._means_at_s
        if with_means:
            self._means_at_s = now_s + self._plan.periods.watch_s
        for block in self.blocks:
            fields = block.fast(with_means=with_means)
            if fields:
                self._keep(self._latest(block, fields))

    def read(self) -> list[list[Sample]]:
        """Every sample that is new since the last read, oldest first, for each target."""
        for block in self.blocks:
            if block.watched:
                rows = self._latest(block, block.watched)
                watches = [s.watch for s in block.shares if s.watch]
                unstick(self._engine, watches, rows, self._clock.now_s())
                self._keep(rows)
        self._means_at_s = self._clock.monotonic_s() + self._plan.periods.watch_s
        samples = self._recent.take()
        self.paused = self._is_paused(samples)
        return [list(self._of(u, samples)) for u in self._inventory.units]

    def changed(self) -> bool:
        """Try again what was refused; True when `targets` differs from before."""
        return self._watcher.retry(self.blocks)

    def outdated(self) -> bool:
        """Whether GPUs or MIG instances came or went; looked at once a minute."""
        now_s = self._clock.monotonic_s()
        if now_s < self._look_at_s:
            return False
        self._look_at_s = now_s + LOOK_AGAIN_S
        return inventory.layout(self._engine) != self._inventory.layout

    def notes(self) -> Iterator[str]:
        """What an operator should read once."""
        yield from self._inventory.notes
        for block in self.blocks:
            for share in block.shares:
                yield from _share_notes(block, share)

    def profiling(self) -> list[GpuProfiling]:
        """The state of profiling of every GPU and MIG instance."""
        return [
            _profiling_of(unit, block, share)
            for block in self.blocks
            for share in block.shares
            if share.profiling
            for unit in block.units
        ]

    def close(self) -> None:
        self._engine.close()

    def _latest(self, block: Block, fields: Sequence[int]) -> dict[Entity, list[Sample]]:
        entities = block.entities
        return dict(zip(entities, self._engine.latest(entities, fields), strict=True))

    def _keep(self, rows: dict[Entity, list[Sample]]) -> None:
        for entity, samples in rows.items():
            self._recent.add(entity, samples)

    def _is_paused(self, samples: dict[Entity, list[Sample]]) -> bool:
        """Asked of the engine only when a profiling value is blank without a reason."""
        blank = any(
            profiling.is_profiling(s.field)
            and not s.status
            and blank_reason(s.value) is Blank.PLAIN
            for row in samples.values()
            for s in row
        )
        try:
            return blank and self._engine.profiling_paused()
        except EngineError as error:
            if error.code == codes.CONNECTION_LOST:
                raise
            return False  # an engine that cannot say: the values stay blank without a reason

    def _of(self, unit: Unit, samples: dict[Entity, list[Sample]]) -> Iterator[Sample]:
        yield from samples.get(unit.entity, ())
        if unit.entity != unit.gpu:
            yield from (s for s in samples.get(unit.gpu, ()) if s.field in CLOCKS)

    def _target(self, unit: Unit, blocks: dict[Entity, Block]) -> Target:
        own, gpu = blocks[unit.entity], blocks.get(unit.gpu)
        troubles = {f: t for f in self._plan.fields if (t := self._trouble(f, unit, own, gpu))}
        gaps = [StandingGap(f, t.reason, t.detail) for f, t in troubles.items()]
        return msgspec.structs.replace(unit.target, gaps=gaps)

    def _trouble(self, field_id: int, unit: Unit, own: Block, gpu: Block | None) -> Trouble | None:
        if field_id not in self._known:
            return codes.trouble(-13)
        block = own
        if not has_level(field_id, unit.entity[0]):
            if gpu is None or field_id not in CLOCKS:
                return absent_at(unit.entity[0])
            block = gpu
        return _trouble_in(block, field_id)


def _trouble_in(block: Block, field_id: int) -> Trouble | None:
    for share in block.shares:
        if field_id in share.left:
            return share.left[field_id]
        if field_id in share.fields:
            return share.trouble
    return None


def _share_notes(block: Block, share: Share) -> Iterator[str]:
    what = "profiling counters" if share.profiling else f"fields {share.fields}"
    if share.trouble:
        remedy = f" ({share.trouble.remedy})" if share.trouble.remedy else ""
        yield f"{block.model}: no {what}: {share.trouble.detail}{remedy}"
    for detail in dict.fromkeys(t.detail for t in share.left.values()):
        fields = [f for f, t in share.left.items() if t.detail == detail]
        yield f"{block.model}: without profiling fields {fields}: {detail}"


def _profiling_of(unit: Unit, block: Block, share: Share) -> GpuProfiling:
    trouble = share.trouble
    left = ", ".join(map(str, share.left))
    return GpuProfiling(
        uuid=unit.target.uuid,
        model=unit.target.model,
        backend=block.backend if trouble is None else "none",
        ok=trouble is None,
        reason=trouble.detail if trouble else left and f"without fields {left}",
        remedy=trouble.remedy if trouble else "",
    )
