"""Mistakes of one file as they are found, each with its position; durations and shares."""

from __future__ import annotations

import re

from otel_ofu.files.yaml import Steps, YamlFile
from otel_ofu.model.errors import ConfigError, Problem
from otel_ofu.rules.files.positions import problem_in
from otel_ofu.rules.files.rule import FilePosition
from otel_ofu.rules.files.shape import DURATION_PATTERN
from otel_ofu.rules.language.typed import milliseconds

_DURATION = re.compile(DURATION_PATTERN)
MAX_S = 90 * 86_400.0
"""Starting value: longer than any shift, and than what a store keeps."""


def duration_s(text: str | float) -> float:
    """`1h30m` in seconds, at most 90 days; 0 needs no unit. Raises ValueError."""
    written = str(text)
    if len(written) > 40 or not _DURATION.fullmatch(written):  # noqa: PLR2004 - 1w6d23h59m59s999ms
        raise ValueError(f"expected a duration such as 30s, 10m or 1h30m, not {written[:40]!r}")
    seconds = milliseconds(written) / 1000
    if seconds > MAX_S:
        raise ValueError(f"{written} is longer than 90d, the most allowed")
    return seconds


def share(value: str | float) -> float:
    """`50%` or `0.5` as a ratio in [0, 1]. Raises ValueError."""
    written = str(value)
    try:
        number = float(written.removesuffix("%")) / (100 if written.endswith("%") else 1)
    except ValueError:
        number = -1.0
    if not 0 <= number <= 1:
        raise ValueError(f"expected a share from 0% to 100%, not {written[:40]!r}")
    return number


class Mistakes:
    """Owned by one load; a value that cannot be read is noted and a default stands in."""

    def __init__(self, file: YamlFile) -> None:
        self.file = file
        self.problems: list[Problem] = []

    def add(self, steps: Steps, message: str) -> None:
        """At the value under `steps`."""
        self.problems.append(self.file.problem(steps, message))

    def add_key(self, steps: Steps, message: str) -> None:
        """At the key itself."""
        self.problems.append(self.file.key_problem(steps, message))

    def add_in(self, steps: Steps, offset: int, message: str) -> None:
        """At a character of the text under `steps`."""
        self.problems.append(problem_in(self.file, steps, offset, message))

    def take(self, error: ConfigError) -> None:
        self.problems += error.problems

    def duration(self, steps: Steps, written: str | int | None, default_s: float) -> float:
        if written is None:
            return default_s
        try:
            return duration_s(written)
        except ValueError as error:
            self.add(steps, str(error))
            return default_s

    def share(self, steps: Steps, written: str | float) -> float:
        try:
            return share(written)
        except ValueError as error:
            self.add(steps, str(error))
            return 0.0

    def position(self, steps: Steps) -> FilePosition:
        line, column = self.file.positions.get(steps, (0, 0))
        return FilePosition(self.file.path, line, column)
