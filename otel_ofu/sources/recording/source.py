"""A recording as a `Source`: the past, read again on its own time.

Enters: a file, and its column map if it is a CSV. Leaves: the readings as they were recorded,
windows and gaps included. The replay loop moves its clock to `next_s` and reads:

    while (now_s := source.next_s) is not None:
        clock.set(now_s)
        readings = source.read(now_s)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol

from otel_ofu.model import Reading
from otel_ofu.model.errors import ConfigError, Problem
from otel_ofu.sources.recording.read import RecordingReader, Tick
from otel_ofu.sources.recording.table import ColumnMap, TableReader


class RecordingFile(Protocol):
    """One pass over a file; `notes` has what was left out so far."""

    notes: list[str]

    def ticks(self) -> Iterator[Tick]: ...

    def close(self) -> None: ...


def open_recording(path: str | Path, columns: ColumnMap | None = None) -> RecordingFile:
    """A CSV if `columns` are given, else a recording of this program. Raises `ConfigError`."""
    if columns is not None:
        return TableReader(path, columns)
    if Path(path).suffix == ".csv":
        raise ConfigError([Problem(str(path), 0, 0, "a CSV needs a column map (--columns)")])
    return RecordingReader(path)


class RecordingSource:
    """Replays one file once.

    `next_s` and `read` raise `ConfigError` with file:line when they come to a bad line. A tick is
    due at the latest end of its windows; ticks keep the order of the file.
    """

    def __init__(self, path: str | Path, columns: ColumnMap | None = None) -> None:
        self._recording = open_recording(path, columns)
        self._ticks = self._recording.ticks()
        self._ahead: Tick | None = None

    @property
    def name(self) -> str:
        return "recording"

    @property
    def notes(self) -> Sequence[str]:
        """What was left out so far, one line each."""
        return self._recording.notes

    @property
    def next_s(self) -> float | None:
        """When the next tick is due (Unix seconds, as recorded); None after the last."""
        if self._ahead is None:
            self._ahead = next(self._ticks, None)
        return None if self._ahead is None else max(r.window.end_s for r in self._ahead)

    def read(self, now_s: float) -> Sequence[Reading]:
        """All readings that were not read yet and are due at `now_s`, oldest first."""
        due: list[Reading] = []
        while (next_s := self.next_s) is not None and next_s <= now_s:
            due += self._ahead or ()
            self._ahead = None
        return due

    def ticks(self) -> Iterator[tuple[float, Tick]]:
        """What is left, tick by tick, with the time at which each is due."""
        while (next_s := self.next_s) is not None:
            tick, self._ahead = self._ahead or (), None
            yield next_s, tick

    def close(self) -> None:
        self._recording.close()
        self._ticks = iter(())
        self._ahead = None
