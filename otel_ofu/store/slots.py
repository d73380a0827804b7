"""Which column belongs to which entity of one kind, in memory and on disk.

Columns of ended entities are used again. The list on disk is written as a whole and put in place at
once. The store file marks who owns each column, so that a list that is older than the file gives no
entity the history of another.
"""

from __future__ import annotations

import heapq
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray

from otel_ofu.model import Attribute, Entity, EntityKind

NOBODY = 0


class Slots:
    """Entities by column, columns by entity id; the lowest free column is given first."""

    def __init__(self) -> None:
        self._by_id: dict[str, int] = {}
        self._entities: list[Entity | None] = []
        self._free: list[int] = []
        self._live: NDArray[np.bool_] = np.zeros(0, np.bool_)
        self.last_seen_s: NDArray[np.float64] = np.full(0, np.nan)
        self.first_seen_s: NDArray[np.float64] = np.full(0, np.nan)

    def __len__(self) -> int:
        """Columns that were ever given: every one in use is below this number."""
        return len(self._entities)

    def __iter__(self) -> Iterator[tuple[int, Entity]]:
        """The columns in use and their entities, in the order of the columns."""
        return ((i, entity) for i, entity in enumerate(self._entities) if entity is not None)

    def find(self, entity_id: str) -> int | None:
        return self._by_id.get(entity_id)

    def entity(self, slot: int) -> Entity | None:
        return self._entities[slot]

    def live(self) -> NDArray[np.bool_]:
        """Which columns are in use."""
        return self._live[: len(self)]

    def by_column(self) -> Sequence[Entity | None]:
        """Who has each column now."""
        return self._entities.copy()

    def give(self, entity: Entity, first_seen_s: float) -> int:
        """A column for a new entity."""
        slot = heapq.heappop(self._free) if self._free else len(self)
        self._assign(slot, entity)
        self.first_seen_s[slot] = first_seen_s
        self.last_seen_s[slot] = first_seen_s
        return slot

    def restore(self, slot: int, entity: Entity, seen_s: tuple[float, float]) -> None:
        """Puts an entity back into the column that it had; `seen_s`: first and last."""
        self._assign(slot, entity)
        self.first_seen_s[slot], self.last_seen_s[slot] = seen_s

    def reuse_gaps(self) -> None:
        """After `restore`: every column below the highest without an entity is free."""
        self._free = [i for i, entity in enumerate(self._entities) if entity is None]

    def rename(self, slot: int, entity: Entity) -> None:
        """The same entity with other attributes."""
        self._entities[slot] = entity

    def take(self, slot: int) -> None:
        """Frees the column of an entity that ended."""
        entity = self._entities[slot]
        if entity is not None:
            del self._by_id[entity.id]
            self._entities[slot] = None
            self._live[slot] = False
            heapq.heappush(self._free, slot)

    def silent_since(self, time_s: float) -> list[Entity]:
        """Entities that were last seen before `time_s`."""
        quiet = np.flatnonzero(self.last_seen_s[: len(self)] < time_s)
        return [entity for slot in quiet if (entity := self._entities[slot]) is not None]

    def _assign(self, slot: int, entity: Entity) -> None:
        while len(self._entities) <= slot:
            self._entities.append(None)
        if len(self.last_seen_s) <= slot:
            more = np.full(max(64, slot + 1), np.nan)
            self.last_seen_s = np.concatenate([self.last_seen_s, more])
            self.first_seen_s = np.concatenate([self.first_seen_s, more])
            self._live = np.concatenate([self._live, np.zeros(len(more), np.bool_)])
        self._entities[slot] = entity
        self._live[slot] = True
        self._by_id[entity.id] = slot


def owner_mark(entity_id: str) -> int:
    """A mark of 64 bits in the file for who owns a column; never NOBODY."""
    text = entity_id.encode()
    return (zlib.crc32(text) << 32 | zlib.adler32(text)) or 1


class SavedEntity(msgspec.Struct, frozen=True, array_like=True):
    """One entity: its column, when it was seen first and last, and what it is."""

    slot: int
    id: str
    first_seen_s: float
    last_seen_s: float
    implied: bool
    attributes: dict[str, Attribute]

    def entity(self, kind: EntityKind) -> Entity:
        return Entity(kind, self.id, self.attributes)


def save_entities(path: Path, slots: Slots, implied: frozenset[str]) -> None:
    """Writes the list. Raises OSError."""
    rows = [
        SavedEntity(
            slot,
            entity.id,
            float(slots.first_seen_s[slot]),
            float(slots.last_seen_s[slot]),
            entity.id in implied,
            dict(entity.attributes),
        )
        for slot, entity in slots
    ]
    new = path.with_suffix(".new")
    new.write_bytes(msgspec.json.encode(rows))
    new.replace(path)


def load_entities(path: Path) -> list[SavedEntity]:
    """The list as it was written; empty when there is none. Raises DecodeError when damaged."""
    if not path.exists():
        return []
    return msgspec.json.decode(path.read_bytes(), type=list[SavedEntity])
