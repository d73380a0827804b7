"""All entities: which column each has, and the job and node of each GPU.

Jobs and nodes without observations of their own exist as long as a GPU names them.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from otel_ofu.model import Entity, EntityKind, Window
from otel_ofu.store.membership import NONE, Membership
from otel_ofu.store.memory import StoreLayout
from otel_ofu.store.table import EntityTable, parent

KINDS: tuple[EntityKind, ...] = ("gpu", "job", "node")
JOB = "ofu.job.id"
NODE = "host.name"
SKU = "ofu.gpu.sku"


class Fleet:
    """The tables by kind, and the membership of GPUs."""

    def __init__(self, layouts: Mapping[EntityKind, StoreLayout], folder: Path | None) -> None:
        self.tables = {kind: EntityTable(kind, layouts[kind], folder) for kind in KINDS}
        self.membership = Membership()
        gpus = self.tables["gpu"].slots
        for slot, entity in list(gpus):
            self._join(slot, entity, float(gpus.first_seen_s[slot]))
        for kind in ("job", "node"):
            self._end_orphans(kind)

    def admit(self, entity: Entity, window: Window) -> int:
        """The column of an entity that was seen in a window; `settle` before writing to it."""
        table = self.tables[entity.kind]
        slot, changed = table.slot(entity, window.start_s)
        seen = table.slots.last_seen_s
        seen[slot] = max(seen[slot], window.end_s)
        if changed and entity.kind == "gpu":
            self._join(slot, entity, window.start_s)
        return slot

    def settle(self) -> None:
        """Empties the columns that were given since the last time."""
        for table in self.tables.values():
            table.settle()

    @property
    def has_new(self) -> bool:
        """Whether there are entities that no list on disk has."""
        return any(table.has_new for table in self.tables.values())

    def end(self, kind: EntityKind, entity_id: str) -> bool:
        """Ends an entity; False if there is no such entity."""
        slot = self.tables[kind].end(entity_id)
        if slot is None:
            return False
        if kind == "gpu":
            parents = self._parents(slot)
            self.membership.release(slot)
            self._end_deserted(parents)
        elif kind == "job":
            self.membership.release_job(slot)
        else:
            self.membership.release_node(slot)
        return True

    def forget(self, silent_since_s: float) -> None:
        """Ends every entity that was last seen before a time, but not those merely implied.

        A job or node that still has GPUs is implied from now on.
        """
        for kind, table in self.tables.items():
            for entity in table.slots.silent_since(silent_since_s):
                if entity.id in table.implied:
                    continue
                if self._has_gpus(kind, entity.id):
                    table.leave_to_gpus(entity.id)
                else:
                    self.end(kind, entity.id)

    def _join(self, gpu: int, entity: Entity, first_seen_s: float) -> None:
        before = self._parents(gpu)
        job = self._imply("job", JOB, entity, first_seen_s)
        node = self._imply("node", NODE, entity, first_seen_s)
        self.membership.assign(gpu, job, node, str(entity.attributes.get(SKU, "")))
        self._end_deserted(before)

    def _imply(self, kind: EntityKind, name: str, gpu: Entity, first_seen_s: float) -> int:
        entity_id = str(gpu.attributes.get(name, ""))
        if not entity_id:
            return NONE
        known = self.tables[kind].slots.find(entity_id)
        if known is not None:
            return known
        return self.tables[kind].imply(parent(kind, entity_id, gpu.attributes), first_seen_s)

    def _has_gpus(self, kind: EntityKind, entity_id: str) -> bool:
        slot = self.tables[kind].slots.find(entity_id)
        return kind != "gpu" and slot is not None and self.membership.has_gpus(kind, slot)

    def _parents(self, gpu: int) -> tuple[tuple[EntityKind, int], tuple[EntityKind, int]]:
        job = int(self.membership.jobs(gpu + 1)[gpu])
        node = int(self.membership.nodes(gpu + 1)[gpu])
        return ("job", job), ("node", node)

    def _end_deserted(self, parents: tuple[tuple[EntityKind, int], ...]) -> None:
        """Ends implied jobs and nodes that have no GPU left."""
        for kind, slot in parents:
            table = self.tables[kind]
            if slot == NONE or self.membership.has_gpus(kind, slot):
                continue
            entity = table.slots.entity(slot)
            if entity is not None and entity.id in table.implied:
                table.end(entity.id)

    def _end_orphans(self, kind: EntityKind) -> None:
        """After a restart: implied entities whose GPUs are gone."""
        for slot, _ in list(self.tables[kind].slots):
            self._end_deserted(((kind, slot),))
