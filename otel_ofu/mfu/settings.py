"""What a user may set about what jobs report: the block `mfu`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from otel_ofu.files.settings import (
    CheckContext,
    Duration,
    Mistake,
    ParsedText,
    QuantityRange,
    Settings,
)
from otel_ofu.mfu.logs.formats import readers_of
from otel_ofu.mfu.logs.patterns import LinePattern, PatternError
from otel_ofu.mfu.logs.tail import PathTemplate, Start
from otel_ofu.mfu.names import Quantity


def _parse_pattern(text: str) -> None:
    try:
        LinePattern(text)
    except PatternError as error:
        raise ValueError(str(error)) from error


def _parse_framework(text: str) -> None:
    readers_of([text])


class LogSettings(Settings, frozen=True, kw_only=True):
    """Files or a command, one of the two. `frameworks` empty: all that are known.

    `start`: whether what is in a file at the first poll is read. `job` names the job where no
    `{job}` in a path does. `patterns` are tried before the built-in formats.
    """

    files: list[Annotated[str, ParsedText(PathTemplate)]] = []
    command: list[str] = []
    job: str = ""
    start: Start = "end"
    frameworks: list[Annotated[str, ParsedText(_parse_framework)]] = []
    patterns: list[Annotated[str, ParsedText(_parse_pattern)]] = []

    def mistakes(self, around: CheckContext) -> Iterator[Mistake]:  # noqa: ARG002 - text alone
        if bool(self.files) == bool(self.command):
            yield (), "allowed: either `files` or `command`"


class MfuSettings(Settings, frozen=True, kw_only=True):
    """`metrics`: names of metrics that jobs send, and what each is."""

    metrics: dict[str, Quantity] = {}
    interval: Annotated[Duration, QuantityRange(Duration(0.1), Duration(3600))] = Duration(1)
    logs: list[LogSettings] = []
