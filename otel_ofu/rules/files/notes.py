"""Mistakes of one file as they are found, each with its place."""

from __future__ import annotations

from otel_ofu.files.yaml import Steps, YamlFile
from otel_ofu.model.errors import ConfigError, Problem
from otel_ofu.rules.files import quantities
from otel_ofu.rules.files.positions import problem_in
from otel_ofu.rules.files.rule import Place


class Notes:
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
            return quantities.duration_s(written)
        except ValueError as error:
            self.add(steps, str(error))
            return default_s

    def share(self, steps: Steps, written: str | float) -> float:
        try:
            return quantities.share(written)
        except ValueError as error:
            self.add(steps, str(error))
            return 0.0

    def place(self, steps: Steps) -> Place:
        line, column = self.file.places.get(steps, (0, 0))
        return Place(self.file.path, line, column)
