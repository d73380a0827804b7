"""Entities of one model and level, and the shares of fields that are watched on them.

Enters: an inventory and the wanted fields. Leaves: `Block`s, each small enough for one group of
any engine. One group per model: the engine judges profiling of a whole group by one member.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, TypeVar

from otel_ofu.model import GapReason
from otel_ofu.sources.dcgm import profiling
from otel_ofu.sources.dcgm.answers import COMPUTE_INSTANCE, GPU, GPU_INSTANCE, Entity
from otel_ofu.sources.dcgm.codes import Trouble
from otel_ofu.sources.dcgm.engine import Watch
from otel_ofu.sources.dcgm.inventory import GROUP_SIZE, Unit

_T = TypeVar("_T")

SM_CLOCK = 100
CLOCKS = frozenset({SM_CLOCK, 101, 113, 114})
"""A MIG instance has none of its own: those of its GPU hold for it."""

XID = 230
_FAST = frozenset({SM_CLOCK, XID, profiling.TENSOR_ACTIVE})
_MEMORY = frozenset({250, 251, 252, 253})
_DRAM_ACTIVE = 1005
_WHOLE_GPU = frozenset({1009, 1010, 1011, 1012, *range(1084, 1097)})

MAX_PROFILING_FIELDS = 64
MAX_FIELDS = 128


@dataclass(slots=True)
class Share:
    """Fields of a block that stand or fall together.

    `watch` while they are watched; `trouble` while the engine refuses, with the time (monotonic,
    in seconds) of the next try. `left` holds what was given up so that the rest can be watched.
    """

    fields: tuple[int, ...]
    period_s: float
    profiling: bool
    watch: Watch | None = None
    trouble: Trouble | None = None
    retry_at_s: float = 0.0
    left: dict[int, Trouble] = field(default_factory=dict)


@dataclass(slots=True)
class Block:
    """At most `GROUP_SIZE` entities of one model and level, in one group of the engine."""

    model: str
    units: tuple[Unit, ...]
    shares: list[Share]
    group: Any = None
    backend: str = "none"

    @property
    def entities(self) -> list[Entity]:
        return [u.entity for u in self.units]

    @property
    def watched(self) -> list[int]:
        return [f for s in self.shares if s.watch for f in s.fields]

    def fast(self, *, with_means: bool) -> list[int]:
        """Looked at between two reads; with all means over time once a period, when there are new.

        Tensor activity each time: another client may have it taken more often.
        """
        fields = self.watched
        return [f for f in fields if f in _FAST or (with_means and profiling.is_profiling(f))]


@dataclass(frozen=True, slots=True)
class Periods:
    """Seconds between two samples: of everything, and of the SM clock."""

    watch_s: float
    clock_s: float


def blocks(units: Sequence[Unit], wanted: Sequence[int], periods: Periods) -> list[Block]:
    """The blocks of an inventory; every wanted field is in a share of every level that has it."""
    ordered = sorted(units, key=lambda u: (u.target.model, u.entity[0]))
    found = []
    for (model, level), members in groupby(ordered, lambda u: (u.target.model, u.entity[0])):
        fields = [f for f in wanted if has_level(f, level)]
        found += [
            Block(model, chunk, list(_shares(fields, periods)))
            for chunk in _chunks(tuple(members), GROUP_SIZE)
        ]
    return found


def has_level(field_id: int, level: int) -> bool:
    """Whether entities of a level can have a field. Source: levels in dcgm_fields.h."""
    if level == GPU:
        return True
    measured = profiling.is_profiling(field_id) and field_id not in _WHOLE_GPU
    if level == GPU_INSTANCE:
        return measured or field_id in _MEMORY
    return level == COMPUTE_INSTANCE and measured and field_id != _DRAM_ACTIVE


def absent_at(level: int) -> Trouble:
    """Why a MIG instance lacks a field that its GPU has."""
    if level == COMPUTE_INSTANCE:
        return Trouble(
            GapReason.NOT_SUPPORTED, "counted for the GPU instance, which is shared, or for the GPU"
        )
    return Trouble(GapReason.NOT_SUPPORTED, "counted for the whole GPU only")


def _shares(fields: Sequence[int], periods: Periods) -> Iterator[Share]:
    measured = tuple(f for f in fields if profiling.is_profiling(f))
    plain = tuple(f for f in fields if not profiling.is_profiling(f) and f != SM_CLOCK)
    if SM_CLOCK in fields:
        yield Share((SM_CLOCK,), periods.clock_s, profiling=False)
    for chunk in _chunks(plain, MAX_FIELDS):
        yield Share(chunk, periods.watch_s, profiling=False)
    if measured:
        # One share: what is over the limit of a watch is given up, least important first.
        yield Share(measured, periods.watch_s, profiling=True)


def _chunks(items: Sequence[_T], size: int) -> Iterator[tuple[_T, ...]]:
    for start in range(0, len(items), size):
        yield tuple(items[start : start + size])
