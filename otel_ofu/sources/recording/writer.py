"""Writes readings to a file, line by line, so that a crash costs at most the last tick.

Enters: readings, a tick at a time. Leaves: a recording (docs/recording-format.md), compressed
if its name ends in `.gz`.
"""

from __future__ import annotations

import gzip
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO, Literal, cast

from otel_ofu.model import Device, Reading
from otel_ofu.model.errors import OtelOfuError
from otel_ofu.sources.recording.format import (
    RecordingHeader,
    TickLine,
    device_line,
    encode,
    reading_line,
)


class RecordingError(OtelOfuError):
    """A recording cannot be written: which file, and the error of the system."""


class RecordingWriter:
    """One file. `overwrite` allows to replace a file that exists.

    The first write that fails (disk full) raises `RecordingError`; from then on nothing more is
    written, so that what is there stays readable, and `lost_ticks` counts. Not thread-safe.
    """

    def __init__(
        self, path: str | Path, header: RecordingHeader | None = None, *, overwrite: bool = False
    ) -> None:
        if not str(path):
            raise RecordingError("the name of the recording is empty; allowed: a file to write")
        self._path = Path(path)
        self._numbers: dict[Device, int] = {}
        self._failed = False
        self._begun = False
        self.lost_ticks = 0
        self._file = _open(self._path, overwrite=overwrite)
        try:
            self._put(encode(header or RecordingHeader()))
        except RecordingError:
            self.close()
            raise

    def write(self, readings: Sequence[Reading]) -> None:
        """One tick, handed to the system before this returns. Nothing for no readings."""
        if not readings:
            return
        if self._failed:
            self.lost_ticks += 1
            return
        new = dict.fromkeys(r.device for r in readings if r.device not in self._numbers)
        lines = [self._introduce(device) for device in new]
        lines.append(encode(TickLine(readings=len(readings))))
        lines += [encode(reading_line(self._numbers[r.device], r)) for r in readings]
        self._put(b"".join(lines))

    def close(self) -> None:
        """May be called twice. Raises `RecordingError` if the last bytes find no room."""
        if self._file.closed:
            return
        try:
            self._file.close()
        except OSError as error:
            if not self._failed:
                raise self._error(error) from error

    def _introduce(self, device: Device) -> bytes:
        number = self._numbers[device] = len(self._numbers)
        return encode(device_line(number, device))

    def _put(self, text: bytes) -> None:
        try:
            self._file.write(text)
            self._file.flush()
        except OSError as error:
            self._failed = True
            self.lost_ticks += 1
            raise self._error(error) from error
        self._begun = True

    def _error(self, error: OSError) -> RecordingError:
        if not self._begun:
            return _cannot(self._path, error)
        return RecordingError(
            f"{self._path}: recording stopped: {error.strerror}; what is there stays readable"
        )


def _open(path: Path, *, overwrite: bool) -> BinaryIO:
    mode: Literal["wb", "xb"] = "wb" if overwrite else "xb"
    try:
        if path.suffix == ".gz":
            return cast(BinaryIO, gzip.open(path, mode, compresslevel=6))
        return path.open(mode)
    except FileExistsError as error:
        raise RecordingError(
            f"{path}: exists already; name another file, or replace it with --force"
        ) from error
    except OSError as error:
        raise _cannot(path, error) from error


def _cannot(path: Path, error: OSError) -> RecordingError:
    return RecordingError(f"{path}: cannot be written: {error.strerror}")
