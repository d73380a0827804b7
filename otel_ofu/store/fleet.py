"""All entities: which column each has, and the job, node and peers of each GPU.

Jobs and nodes without observations of their own exist as long as a GPU names them. Peers are the
GPUs of the same job and the same SKU.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from otel_ofu.model import Entity, EntityKind, Window
from otel_ofu.store.memory import StoreLayout
from otel_ofu.store.table import EntityTable, parent

NONE = -1

Indices = NDArray[np.intp]
Peers = tuple[int, str]


class Membership:
    """Job column, node column and peer group of every GPU column, -1 for none.

    `peer_limit`: every number of a peer group is below it. Numbers are used again.
    """

    def __init__(self) -> None:
        self._job: Indices = np.full(0, NONE)
        self._node: Indices = np.full(0, NONE)
        self._peers: Indices = np.full(0, NONE)
        self._groups: dict[Peers, int] = {}
        self._group_of: dict[int, Peers] = {}
        self._free: list[int] = []
        self._sizes: Counter[Peers] = Counter()
        self._jobs: Counter[int] = Counter()
        self._nodes: Counter[int] = Counter()
        self.peer_limit = 0

    def jobs(self, columns: int) -> Indices:
        """The job column of each GPU column."""
        self._grow(columns)
        return self._job[:columns]

    def nodes(self, columns: int) -> Indices:
        """The node column of each GPU column."""
        self._grow(columns)
        return self._node[:columns]

    def peers(self, columns: int) -> Indices:
        """The peer group of each GPU column."""
        self._grow(columns)
        return self._peers[:columns]

    def has_gpus(self, kind: EntityKind, slot: int) -> bool:
        """Whether a GPU is of the job, or on the node, in a column."""
        return bool((self._jobs if kind == "job" else self._nodes)[slot])

    def assign(self, gpu: int, job: int, node: int, sku: str) -> None:
        """Sets the owners of the GPU in a column; NONE for no job or node."""
        self._grow(gpu + 1)
        self._move(self._jobs, int(self._job[gpu]), job)
        self._move(self._nodes, int(self._node[gpu]), node)
        self._job[gpu], self._node[gpu] = job, node
        self._join(gpu, (job, sku) if job != NONE else None)

    def release(self, gpu: int) -> None:
        """The GPU in a column has no owners."""
        self.assign(gpu, NONE, NONE, "")

    def release_job(self, job: int) -> None:
        """No GPU is of this job any more."""
        for gpu in np.flatnonzero(self._job == job).tolist():
            self.assign(gpu, NONE, int(self._node[gpu]), "")

    def release_node(self, node: int) -> None:
        """No GPU is on this node any more."""
        for gpu in np.flatnonzero(self._node == node).tolist():
            sku = self._group_of[gpu][1] if gpu in self._group_of else ""
            self.assign(gpu, int(self._job[gpu]), NONE, sku)

    def _move(self, held: Counter[int], old: int, new: int) -> None:
        if new != NONE:
            held[new] += 1
        if old != NONE:
            held[old] -= 1
            if not held[old]:
                del held[old]

    def _join(self, gpu: int, peers: Peers | None) -> None:
        old = self._group_of.pop(gpu, None)
        if peers is not None:
            self._group_of[gpu] = peers
            self._sizes[peers] += 1
            self._peers[gpu] = self._number(peers)
        else:
            self._peers[gpu] = NONE
        if old is not None:
            self._sizes[old] -= 1
            if not self._sizes[old]:
                del self._sizes[old]
                self._free.append(self._groups.pop(old))

    def _number(self, peers: Peers) -> int:
        if peers not in self._groups:
            if not self._free:
                self._free.append(self.peer_limit)
                self.peer_limit += 1
            self._groups[peers] = self._free.pop()
        return self._groups[peers]

    def _grow(self, columns: int) -> None:
        if len(self._job) < columns:
            more = np.full(max(64, columns), NONE)
            self._job = np.concatenate([self._job, more])
            self._node = np.concatenate([self._node, more])
            self._peers = np.concatenate([self._peers, more])


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
