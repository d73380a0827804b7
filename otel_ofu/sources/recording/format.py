"""The lines of a recording: JSON objects, one a line, distinguished by `line`.

docs/recording-format.md is the contract; here are its types. Enters or leaves: bytes of a line.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec

from otel_ofu.model import Device, Gap, GapReason, Reading, Window

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


class ReadingLine(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    tag_field="line",
    tag="reading",
    omit_defaults=True,
):
    """One `Reading`; a gap is its reason and, if there is any, the detail."""

    device: int
    window: tuple[Number, Number]
    source: str = ""
    values: dict[str, Number] = {}
    gaps: dict[str, list[str]] = {}
    owner: dict[str, str] = {}
    quality: str = ""


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
        window=(_number(reading.window.start_s), _number(reading.window.end_s)),
        source=reading.source,
        values={key: _number(value) for key, value in reading.values.items()},
        gaps={key: _parts(gap) for key, gap in reading.gaps.items()},
        owner=dict(reading.owner),
        quality=reading.quality,
    )


def to_reading(line: ReadingLine, device: Device, known: Mapping[str, bool]) -> Reading:
    """Only keys that are `known`. Raises ValueError for a gap that is none."""
    values = {key: float(value) for key, value in line.values.items() if known[key]}
    gaps = {key: _gap(key, parts) for key, parts in line.gaps.items() if known[key]}
    if both := values.keys() & gaps.keys():
        raise ValueError(f"{min(both)!r} is in values and in gaps")
    window = Window(float(line.window[0]), float(line.window[1]))
    return Reading(device, window, line.source, values, gaps, line.owner, line.quality)


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
