"""Reads a recording, tick by tick, however long it is.

Enters: a file as `writer` leaves it, also one that was cut off anywhere. Leaves: ticks, each the
readings that were written together; and notes on what was left out.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, cast

import msgspec

from otel_ofu.catalog.registry import Registry, load_registry
from otel_ofu.model import Device, Reading
from otel_ofu.model.errors import ConfigError, Problem
from otel_ofu.sources.recording.format import (
    VERSION,
    DeviceLine,
    Line,
    ReadingLine,
    RecordingHeader,
    TickLine,
    decode,
    to_device,
    to_reading,
)

MAX_LINE_BYTES = 16 * 2**20  # starting value: a reading has a few KiB
GZIP = b"\x1f\x8b"
NO_RECORDING = "not a recording of otel-ofu: the first line is not a complete header"

Tick = Sequence[Reading]


def read_recording(path: str | Path) -> Iterator[Tick]:
    """The ticks of a recording, oldest first. Raises `ConfigError` with file:line."""
    return RecordingReader(path).ticks()


class RecordingReader:
    """One pass over one file.

    Raises `ConfigError` at once if this is no recording that can be read here, and later at the
    first bad line. `notes` has what was left out, and is complete after the last tick: the end
    of a file that was cut off, and metrics that the registry does not know.
    """

    def __init__(self, path: str | Path) -> None:
        self._path = str(path)
        self.notes: list[str] = []
        self._number = 0
        self._file = _open(Path(path))
        try:
            self.header = self._header()
        except ConfigError:
            self._file.close()
            raise

    def ticks(self) -> Iterator[Tick]:
        """All complete ticks; the file is closed after the last."""
        known = _KnownKeys(load_registry(), self.notes)
        devices: dict[int, Device] = {}
        tick: list[Reading] = []
        due = 0
        with self._file:
            for line in self._lines():
                if isinstance(line, RecordingHeader):
                    devices.clear()
                elif isinstance(line, DeviceLine):
                    devices[line.number] = self._device(line)
                elif isinstance(line, TickLine):
                    self._expect_none(due - len(tick))
                    due, tick = line.readings, []
                else:
                    tick.append(self._reading(line, devices, known, due - len(tick)))
                    if len(tick) == due:
                        yield tick
        if len(tick) < due:
            self.notes.append(
                f"{self._path}: the last tick is cut off ({len(tick)} of {due} readings); left out"
            )

    def close(self) -> None:
        self._file.close()

    def _header(self) -> RecordingHeader:
        line = next(self._lines(), None)
        if not isinstance(line, RecordingHeader):
            raise self._error(NO_RECORDING)
        if line.otel_ofu_recording != VERSION:
            raise self._error(
                f"recording format {line.otel_ofu_recording}; this program reads {VERSION}"
            )
        return line

    def _lines(self) -> Iterator[Line]:
        while text := self._readline():
            self._number += 1
            if len(text) > MAX_LINE_BYTES:
                raise self._error(f"a line of more than {MAX_LINE_BYTES // 2**20} MiB")
            try:
                yield decode(text)
            except (msgspec.MsgspecError, UnicodeDecodeError) as error:
                if self._number == 1:
                    raise self._error(_no_recording(text)) from error
                if text.endswith(b"\n"):
                    raise self._error(str(error)) from error
                self.notes.append(f"{self._path}:{self._number}: cut off; this line is left out")

    def _readline(self) -> bytes:
        try:
            return self._file.readline(MAX_LINE_BYTES + 1)
        except EOFError:
            self.notes.append(f"{self._path}: the compressed data is cut off")
            return b""
        except (OSError, zlib.error) as error:
            self._number += 1
            raise self._error(f"cannot be read: {error}") from error

    def _device(self, line: DeviceLine) -> Device:
        try:
            return to_device(line)
        except msgspec.ValidationError as error:
            raise self._error(str(error)) from error

    def _reading(
        self, line: ReadingLine, devices: dict[int, Device], known: _KnownKeys, room: int
    ) -> Reading:
        if room < 1:
            raise self._error("a reading that no tick line announces")
        if line.device not in devices:
            raise self._error(f"device {line.device} is not introduced before")
        try:
            return to_reading(line, devices[line.device], known)
        except ValueError as error:
            raise self._error(str(error)) from error

    def _expect_none(self, missing: int) -> None:
        if missing > 0:
            raise self._error(f"a new tick, while {missing} readings of the last are missing")

    def _error(self, message: str) -> ConfigError:
        return ConfigError([Problem(self._path, max(self._number, 1), 1, message)])


class _KnownKeys(dict[str, bool]):
    """Whether the registry has a key; looked up once for each, and noted if not."""

    def __init__(self, registry: Registry, notes: list[str]) -> None:
        super().__init__()
        self._registry = registry
        self._notes = notes

    def __missing__(self, key: str) -> bool:
        try:
            self._registry.point_attributes(key)
        except (KeyError, ValueError):
            self._notes.append(f"metric {key!r} is not known here; left out")
            self[key] = False
        else:
            self[key] = True
        return self[key]


def _no_recording(first: bytes) -> str:
    """A row of names is no JSON object, but has commas."""
    text = first.decode(errors="replace").strip().replace("\t", " ")
    # What cannot be decoded has become U+FFFD, which is printable.
    row = "," in text and text[0] != "{" and text.isprintable() and "\ufffd" not in text
    return f"{NO_RECORDING}; a CSV needs a column map (--columns)" if row else NO_RECORDING


def _open(path: Path) -> BinaryIO:
    try:
        file = path.open("rb")
        if file.peek(2)[:2] != GZIP:
            return file
        file.close()
        return cast(BinaryIO, gzip.open(path, "rb"))
    except OSError as error:
        raise ConfigError(
            [Problem(str(path), 0, 0, f"cannot be read: {error.strerror}")]
        ) from error
