"""The entities of one kind with their history, in a directory that one process holds at a time.

A file that cannot be used is set aside, and a disk that does not take the history leaves it in
memory: each with one line in the log and in `messages`.
"""

from __future__ import annotations

import fcntl
import logging
import os
from collections.abc import Mapping
from pathlib import Path

import msgspec
import numpy as np

from otel_ofu.model import Attribute, Entity, EntityKind
from otel_ofu.model.errors import OtelOfuError
from otel_ofu.store.history import History
from otel_ofu.store.memory import MappedMemory, StoreLayout, UnusableStoreError
from otel_ofu.store.slots import NOBODY, Slots, load_entities, owner_mark, save_entities


class StateUnusableError(OtelOfuError):
    """The directory cannot hold the history, with the reason of the system."""


class StateInUseError(StateUnusableError):
    """Another process keeps its history in the same directory."""


class StateFolder:
    """`path` is None when history is kept in memory alone. Raises StateUnusableError."""

    def __init__(self, state_dir: Path | None) -> None:
        self.path = state_dir / "store" if state_dir else None
        self._lock: int | None = None
        if self.path is not None:
            try:
                self.path.mkdir(parents=True, exist_ok=True)
                self._lock = _lock(self.path)
            except OSError as error:
                raise StateUnusableError(f"{self.path}: {error.strerror}") from error

    def release(self) -> None:
        """Lets another process in; may be called twice."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def _lock(folder: Path) -> int:
    descriptor = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise StateInUseError(f"{folder}: another otel-ofu keeps its history there") from None
    return descriptor


log = logging.getLogger(__name__)


class EntityTable:
    """Slots and history of one kind; `implied` are entities known only through their GPUs.

    `has_new`: columns were given since the list was saved.
    """

    def __init__(self, kind: EntityKind, layout: StoreLayout, folder: Path | None) -> None:
        self.kind = kind
        self.messages: list[str] = []
        self.implied: set[str] = set()
        self.slots = Slots()
        self._folder = folder
        self._fresh: list[int] = []
        self._changed = False
        self.has_new = False
        self.history = History(self._open(layout), self._path("ring"))
        self._restore()

    def slot(self, entity: Entity, first_seen_s: float) -> tuple[int, bool]:
        """The column of an entity, and whether it is new or described anew.

        `settle` before writing to a new column.
        """
        if entity.id in self.implied:
            self.implied.remove(entity.id)
            self._changed = True
        slot = self.slots.find(entity.id)
        if slot is None:
            return self._give(entity, first_seen_s), True
        known = self.slots.entity(slot)
        if known is entity or known == entity:
            return slot, False
        self.slots.rename(slot, entity)
        self._changed = True
        return slot, True

    def imply(self, entity: Entity, first_seen_s: float) -> int:
        """A column for a new entity that others speak of."""
        self.implied.add(entity.id)
        return self._give(entity, first_seen_s)

    def leave_to_gpus(self, entity_id: str) -> None:
        """Nobody reports on an entity any more, only its GPUs still speak of it."""
        self.implied.add(entity_id)
        self._changed = True

    def settle(self) -> None:
        """Empties the columns that were given since the last time."""
        if self._fresh:
            self.history.clear_columns(np.array(self._fresh))
            self._fresh.clear()

    def end(self, entity_id: str) -> int | None:
        """Frees the column of an entity; None if there is no such entity."""
        slot = self.slots.find(entity_id)
        if slot is not None:
            self.slots.take(slot)
            self.implied.discard(entity_id)
            self.history.owners[slot] = NOBODY
            self._changed = True
        return slot

    def save(self, *, whole: bool) -> None:
        """Writes the list of entities if it changed, or with `whole`. Raises OSError."""
        path = self._path("entities")
        if path is not None and (whole or self._changed):
            save_entities(path, self.slots, frozenset(self.implied))
        self._changed = self.has_new = False

    def _give(self, entity: Entity, first_seen_s: float) -> int:
        used = len(self.slots)
        slot = self.slots.give(entity, first_seen_s)
        if not self.history.has_room(slot + 1):
            self.history.grow(slot + 1, used)
        self.history.owners[slot] = owner_mark(entity.id)
        self._fresh.append(slot)
        self._changed = self.has_new = True
        return slot

    def _path(self, suffix: str) -> Path | None:
        return self._folder / f"{self.kind}.{suffix}" if self._folder else None

    def _open(self, layout: StoreLayout) -> MappedMemory:
        path = self._path("ring")
        if path is None or not path.exists():
            return self._create(layout, path)
        try:
            return MappedMemory.open(path, layout.step_s)
        except (UnusableStoreError, OSError) as error:
            aside = path.with_suffix(".unusable")
            path.replace(aside)
            self._warn(
                f"{path}: {error}; set aside as {aside.name}, starting with an empty history"
            )
            return self._create(layout, path)

    def _create(self, layout: StoreLayout, path: Path | None) -> MappedMemory:
        try:
            return MappedMemory.create(layout, path)
        except OSError as error:
            self._warn(f"{path}: {error.strerror}; history does not survive a restart")
            return MappedMemory.create(layout, None)

    def _warn(self, message: str) -> None:
        self.messages.append(message)
        log.warning("%s", message)

    def _restore(self) -> None:
        path = self._path("entities")
        if path is None:
            return
        try:
            rows = load_entities(path)
        except (OSError, msgspec.DecodeError) as error:
            self._warn(f"{path}: {error}; starting with an empty history of these entities")
            return
        marks = self.history.owners
        for row in rows:
            if row.slot < len(marks) and int(marks[row.slot]) == owner_mark(row.id):
                seen_s = (row.first_seen_s, row.last_seen_s)
                self.slots.restore(row.slot, row.entity(self.kind), seen_s)
                if row.implied:
                    self.implied.add(row.id)
        self.slots.reuse_gaps()


def parent(kind: EntityKind, entity_id: str, gpu: Mapping[str, Attribute]) -> Entity:
    """The job or node of a GPU, as far as the GPU's own attributes show."""
    prefixes = ("ofu.job.", "slurm.", "k8s.job.") if kind == "job" else ("host.",)
    attributes = {name: value for name, value in gpu.items() if name.startswith(prefixes)}
    return Entity(kind, entity_id, attributes)
