"""Layouts of resources: where the numbers of a ResourceMetrics stand that is like an earlier one.

An agent sends the same resource every few seconds, and only times and values differ: both have 8
bytes each in OTLP, so all other bytes stay where they are. Enters: what the slow way found out
about a resource, once. Leaves: `Layout`s, which read the next ones of exactly that form.
"""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from otel_ofu.model import Entity, EntityKind
from otel_ofu.receive.keys import UnitConversion
from otel_ofu.receive.points import RawPoint
from otel_ofu.receive.rejected import RejectedPoints
from otel_ofu.receive.sorter import PointGroup, SortedPoints

Bytes = NDArray[np.uint8]
Doubles = NDArray[np.float64]
Offsets8 = NDArray[np.intp]
"""Positions of bytes, eight for each number."""

# Starting value: key sets and arrays of all agents together; a version of the agent has a few.
_MOST_SHARED = 4096
_LARGEST = float(np.finfo(np.float64).max)


@dataclass(frozen=True, eq=False, slots=True)
class KeySet:
    """Registry keys in the order in which they come, shared by all entities that have the same.

    Values outside of [low, high] are impossible; `convert` leads to the registry's units. `times`:
    positions of the cumulative seconds of a GPU with a job, which go on for a while after the job's
    end; `living`: the keys without them.
    """

    kind: EntityKind
    keys: tuple[str, ...]
    low: Doubles
    high: Doubles
    convert: tuple[UnitConversion, ...] | None
    times: tuple[int, ...] = ()
    living: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False, slots=True)
class Columns:
    """Where the numbers of one entity stand, from where its resource begins."""

    keys: KeySet
    values: Offsets8
    times: Offsets8
    is_int: NDArray[np.bool_] | None

    def read(self, raw: Bytes, starts: Sequence[int]) -> tuple[Doubles, NDArray[np.uint64]]:
        """Values and times (Unix nanoseconds) [resource, key] of resources that begin there."""
        begins = np.array(starts, np.intp).reshape(-1, 1)
        found = raw[begins + self.values]
        values = found.view("<f8")
        if self.is_int is not None:
            values = np.where(self.is_int, found.view("<i8"), values)
        return values, raw[begins + self.times].view("<u8")


@dataclass(frozen=True, eq=False, slots=True)
class Part:
    """What one entity has in a layout."""

    entity: Entity
    pushed: bool
    columns: Columns


@dataclass(frozen=True, eq=False, slots=True)
class Layout:
    """One form of one resource. `digest`: of all bytes that are neither a time nor a value.

    `mask` has 0 for those bytes and 255 for all others.
    """

    length: int
    mask: Bytes
    digest: bytes
    parts: tuple[Part, ...]
    rejected: RejectedPoints
    ignored: int

    def fits(self, raw: Bytes) -> bool:
        """Whether the bytes hold the same of the same, at another time."""
        return digest_of(raw, self.mask) == self.digest


def digest_of(raw: Bytes, mask: Bytes) -> bytes:
    """Of the bytes under the mask. An attacker must not be able to make two alike."""
    return hashlib.sha256((raw & mask).data).digest()


class SharedLayouts:
    """Keeps one of equal arrays and key sets: thousands of GPUs have the same."""

    def __init__(self) -> None:
        self._key_sets: dict[Hashable, KeySet] = {}
        self._columns: dict[Hashable, Columns] = {}
        self._offsets: dict[tuple[int, ...], Offsets8] = {}
        self._masks: dict[tuple[int, int], Bytes] = {}

    def key_set(self, group: PointGroup) -> KeySet:
        converts = tuple(matched.match.convert for matched in group.points)
        key = (group.entity.kind, tuple(matched.match.key for matched in group.points), converts)
        found = self._key_sets.get(key)
        if found is None:
            self._forget_if_many()
            found = self._key_sets[key] = _key_set(group)
        return found

    def layout(self, raw: Bytes, result: SortedPoints, points: Sequence[RawPoint]) -> Layout:
        """The layout of a resource that was sorted; `raw` is all of it."""
        mask = self._mask_of(len(raw), points)
        parts = tuple(Part(g.entity, g.pushed, self._columns_of(g)) for g in result.groups)
        return Layout(len(raw), mask, digest_of(raw, mask), parts, result.rejected, result.ignored)

    def _mask_of(self, length: int, points: Sequence[RawPoint]) -> Bytes:
        every = [p.offsets for p in points if p.offsets is not None]
        moving = self._array(at for p in every for at in (p.value, p.time, p.start))
        key = (length, id(moving))
        found = self._masks.get(key)
        if found is None:
            found = self._masks[key] = np.full(length, 0xFF, np.uint8)
            found[moving] = 0
        return found

    def _columns_of(self, group: PointGroup) -> Columns:
        keys = self.key_set(group)
        offsets = [p.point.offsets for p in group.points if p.point.offsets is not None]
        values, times = self._array(p.value for p in offsets), self._array(p.time for p in offsets)
        ints = tuple(p.point.is_int for p in group.points)
        key = (id(keys), id(values), id(times), ints)
        found = self._columns.get(key)
        if found is None:
            is_int = np.array(ints) if any(ints) else None
            found = self._columns[key] = Columns(keys, values, times, is_int)
        return found

    def _array(self, begins: Iterable[int]) -> Offsets8:
        key = tuple(begin for begin in begins if begin >= 0)
        found = self._offsets.get(key)
        if found is None:
            wide = np.array(key, np.intp).reshape(-1, 1) + np.arange(8)
            found = self._offsets[key] = wide.reshape(-1)
        return found

    def _forget_if_many(self) -> None:
        """All of them at once: some are found by the identity of others."""
        if len(self._key_sets) >= _MOST_SHARED or len(self._offsets) >= _MOST_SHARED:
            self._key_sets.clear()
            self._columns.clear()
            self._offsets.clear()
            self._masks.clear()


def _key_set(group: PointGroup) -> KeySet:
    ranges = [matched.match.metric.range for matched in group.points]
    low = [-_LARGEST if low is None else low for low, _ in ranges]
    high = [_LARGEST if high is None else high for _, high in ranges]
    converts = tuple(c for matched in group.points if (c := matched.match.convert) is not None)
    matches = [matched.match for matched in group.points]
    return KeySet(
        group.entity.kind,
        tuple(match.key for match in matches),
        np.array(low, np.float64),
        np.array(high, np.float64),
        converts or None,
        times=tuple(at for at, match in enumerate(matches) if match.metric.is_gpu_time),
        living=tuple(match.key for match in matches if not match.metric.is_gpu_time),
    )
