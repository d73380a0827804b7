"""The entities of one kind on disk: which column each had, beside the store file.

Written as a whole and put in place at once. The store file marks who owns each column, so that a
list that is older than the file gives nobody another's history.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from otel_ofu.model import Attribute, Entity, EntityKind
from otel_ofu.store.slots import Slots


class Row(msgspec.Struct, frozen=True, array_like=True):
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
        Row(
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


def load_entities(path: Path) -> list[Row]:
    """The list as it was written; empty when there is none. Raises DecodeError when damaged."""
    if not path.exists():
        return []
    return msgspec.json.decode(path.read_bytes(), type=list[Row])
