"""Entities whose series ended, and which end unless they are back in time; also over a restart.

Enters: an end, a return. Leaves: whose time is over. An end is in the file before its sender gets
an answer, because nobody sends it again.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

from otel_ofu.files.sqlite import Change, FileSchema, Rows, SqliteTables, Table
from otel_ofu.model import EntityKind
from otel_ofu.store.job_time import JobTimeSums

log = logging.getLogger(__name__)

Ended = tuple[EntityKind, str]

_SCHEMA = """
CREATE TABLE endings (
  kind TEXT NOT NULL, entity TEXT NOT NULL, due_s REAL NOT NULL, PRIMARY KEY (kind, entity)
) WITHOUT ROWID;
"""
_FORM = FileSchema(_SCHEMA, 1, "ended entities")
_TABLE = Table("endings", ("kind", "entity"), tuple[EntityKind, str, float])


class EndedEntitySet:
    """Thread-safe. `path` None keeps nothing over a restart."""

    def __init__(self, path: Path | None = None) -> None:
        self._lock = threading.Lock()
        self._file = SqliteTables(path, _FORM, _load, log)
        self._due_s = self._file.loaded

    def __bool__(self) -> bool:
        return bool(self._due_s)

    def add(self, ended: Collection[Ended], due_s: float) -> None:
        """They end at `due_s` (Unix seconds)."""
        with self._lock:
            self._due_s.update(dict.fromkeys(ended, due_s))
            self._file.save(Change(_TABLE, [(*each, due_s) for each in ended]))

    def discard(self, back: Iterable[Ended]) -> None:
        """They do not end after all."""
        with self._lock:
            gone = [each for each in back if self._due_s.pop(each, None) is not None]
            if gone:
                self._file.save(Change(_TABLE, gone=gone))

    def due(self, now_s: float) -> list[Ended]:
        """Those whose time is over."""
        with self._lock:
            return [each for each, due_s in self._due_s.items() if due_s <= now_s]

    def ids(self, kind: EntityKind) -> list[str]:
        """Those of a kind that are still to end."""
        with self._lock:
            return [id_ for known, id_ in self._due_s if known == kind]

    def close(self) -> None:
        self._file.close()


def _load(rows: Rows) -> dict[Ended, float]:
    return {(kind, entity): due_s for kind, entity, due_s in rows(_TABLE)}


@dataclass(frozen=True, slots=True)
class FleetState:
    """What a gateway knows of jobs beyond its history."""

    times: JobTimeSums
    endings: EndedEntitySet

    @classmethod
    def open(cls, folder: Path | None) -> FleetState:
        """What is in a folder; None keeps nothing over a restart."""
        if folder is None:
            return cls(JobTimeSums(), EndedEntitySet())
        times = JobTimeSums(folder / "job-time.bin")
        return cls(times, EndedEntitySet(folder / "ended.sqlite"))

    def close(self) -> None:
        self.endings.close()
