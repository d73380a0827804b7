"""What the blocks of the route section are made of.

Enters: plain YAML data, or a block. Leaves: durations, and what is wrong with a block.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec
from msgspec.structs import fields

_UNITS_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
_DURATION = re.compile(r"(?:\d{1,9}(?:\.\d{1,9})? ?(?:ms|[smhdw]))+")
_PART = re.compile(r"(\d+(?:\.\d+)?) ?(ms|[smhdw])")

Step = str | int
Steps = tuple[Step, ...]
Mistake = tuple[Steps, str]
"""The steps to what is wrong, from the block that says so, and the message."""


class Duration(float):
    """Seconds, written as `30s`, `5m` or `1h30m`."""


def parse_duration(text: object) -> Duration:
    """`1h30m` -> 5400.0. ValueError says what is allowed."""
    if not isinstance(text, str) or not _DURATION.fullmatch(text):
        raise ValueError(f"{text!r} is not a duration such as 30s, 5m or 1h30m")
    return Duration(sum(float(n) * _UNITS_S[unit] for n, unit in _PART.findall(text)))


def hook(type_: type[Any], value: Any) -> Any:  # noqa: ANN401 - msgspec's signature
    """For `msgspec.convert` and `yaml.convert`: makes durations of texts."""
    if type_ is Duration:
        return parse_duration(value)
    raise NotImplementedError(type_)


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a check depends on beside the settings. `now_s` in Unix seconds."""

    now_s: float
    environ: Mapping[str, str] = field(default_factory=dict, repr=False)


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A block of the configuration: unknown keys are mistakes.

    `REMOVED` of a block has the keys that it once had, and what to do instead.
    """

    def mistakes(self, around: Surroundings) -> Iterator[Mistake]:  # noqa: ARG002 - for subclasses
        """What the types of the keys cannot express; blocks within are not its."""
        return iter(())


def mistakes(settings: Settings, around: Surroundings) -> Iterator[Mistake]:
    """Every mistake in a block and in all blocks within, with its steps from that block."""
    yield from settings.mistakes(around)
    for each in fields(type(settings)):
        value = getattr(settings, each.name)
        for steps, block in _blocks(value, (each.encode_name,)):
            yield from (((*steps, *deeper), why) for deeper, why in mistakes(block, around))


def _blocks(value: object, steps: Steps) -> Iterator[tuple[Steps, Settings]]:
    if isinstance(value, Settings):
        yield steps, value
    elif isinstance(value, list):
        for i, item in enumerate(value):
            yield from _blocks(item, (*steps, i))
