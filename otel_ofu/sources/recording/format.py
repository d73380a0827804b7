"""The lines of a recording: JSON objects, one a line, distinguished by `line`; and their writer.

docs/recording-format.md is the contract; here are its types. Enters or leaves: bytes of a line;
readings, a tick at a time, into a file that is compressed if its name ends in `.gz`. It is written
line by line, so that a crash costs at most the last tick.
"""

from __future__ import annotations

import gzip
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Literal, cast

import msgspec

from otel_ofu.model import Device, Gap, GapReason, Owner, Reading, Window
from otel_ofu.model.errors import OtelOfuError

VERSION = 1

# JSON has no numbers for these; they should not be recorded, and what was recorded is not lost.
Number = float | Literal["nan", "inf", "-inf"]


class RecordingHeader(msgspec.Struct, frozen=True, kw_only=True, tag_field="line", tag="header"):
    """The first line. `start_s` is when recording began, `interval_s` how often a tick was."""

    otel_ofu_recording: int = VERSION
    host: str = ""
    agent: str = ""
    start_s: float | None = None
    interval_s: float | None = None


class DeviceLine(msgspec.Struct, frozen=True, kw_only=True, tag_field="line", tag="device"):
    """Introduces a device; later lines call it by `number`."""

    number: int
    device: dict[str, Any]


class TickLine(msgspec.Struct, frozen=True, kw_only=True, tag_field="line", tag="tick"):
    """Announces how many reading lines follow; a tick with fewer was cut off."""

    readings: Annotated[int, msgspec.Meta(ge=0)]


class OwnerEntry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One of the owners of a device; without a share, its part is even."""

    attributes: dict[str, str] = {}
    share: Annotated[float, msgspec.Meta(gt=0, le=1)] | None = None


class ReadingLine(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    tag_field="line",
    tag="reading",
    omit_defaults=True,
):
    """One `Reading`; a gap is its reason and, if there is any, the detail.

    `owner` is how one owner was written before a device could have several; it is read only.
    """

    device: int
    window: tuple[Number, Number]
    source: str = ""
    values: dict[str, Number] = {}
    gaps: dict[str, list[str]] = {}
    owner: dict[str, str] = {}
    owners: list[OwnerEntry] = []
    quality: str = ""
    windows: dict[str, tuple[Number, Number]] = {}


Line = RecordingHeader | DeviceLine | TickLine | ReadingLine

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Line)
_DEFAULTS = msgspec.to_builtins(Device(uuid=""))


def encode(line: Line) -> bytes:
    return _encoder.encode(line) + b"\n"


def decode(text: bytes) -> Line:
    """Raises msgspec.MsgspecError (or ValueError for text that is no UTF-8)."""
    return _decoder.decode(text)


def device_line(number: int, device: Device) -> DeviceLine:
    """Only what differs from the defaults of `Device`, and always the uuid."""
    fields = msgspec.to_builtins(device)
    changed = {k: v for k, v in fields.items() if k == "uuid" or v != _DEFAULTS[k]}
    return DeviceLine(number=number, device=changed)


def to_device(line: DeviceLine) -> Device:
    """Raises msgspec.ValidationError."""
    return msgspec.convert(line.device, Device)


def reading_line(number: int, reading: Reading) -> ReadingLine:
    return ReadingLine(
        device=number,
        window=_times(reading.window),
        source=reading.source,
        values={key: _number(value) for key, value in reading.values.items()},
        gaps={key: _parts(gap) for key, gap in reading.gaps.items()},
        owners=[OwnerEntry(attributes=dict(o.attributes), share=o.share) for o in reading.owners],
        quality=reading.quality,
        windows={key: _times(window) for key, window in reading.windows.items()},
    )


def to_reading(line: ReadingLine, device: Device, known: Mapping[str, bool]) -> Reading:
    """Only keys that are `known`. Raises ValueError for a gap that is none."""
    values = {key: float(value) for key, value in line.values.items() if known[key]}
    gaps = {key: _gap(key, parts) for key, parts in line.gaps.items() if known[key]}
    if both := values.keys() & gaps.keys():
        raise ValueError(f"{min(both)!r} is in values and in gaps")
    windows = {key: _window(times) for key, times in line.windows.items() if key in values}
    return Reading(
        device=device,
        window=_window(line.window),
        source=line.source,
        values=values,
        gaps=gaps,
        owners=_owners(line),
        quality=line.quality,
        windows=windows,
    )


def _owners(line: ReadingLine) -> tuple[Owner, ...]:
    entries = line.owners or ([OwnerEntry(attributes=line.owner)] if line.owner else [])
    return tuple(Owner(entry.attributes, entry.share) for entry in entries)


def _times(window: Window) -> tuple[Number, Number]:
    return _number(window.start_s), _number(window.end_s)


def _window(times: tuple[Number, Number]) -> Window:
    return Window(float(times[0]), float(times[1]))


def _number(value: float) -> Number:
    if math.isfinite(value):
        return value
    return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"


def _parts(gap: Gap) -> list[str]:
    return [gap.reason.value, gap.detail] if gap.detail else [gap.reason.value]


def _gap(key: str, parts: list[str]) -> Gap:
    reasons = [reason.value for reason in GapReason]
    if not parts or parts[0] not in reasons or len(parts) > 2:  # noqa: PLR2004 - reason, detail
        raise ValueError(f"gap of {key!r} is {parts}; a reason ({', '.join(reasons)}) and a detail")
    return Gap(GapReason(parts[0]), *parts[1:])


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
