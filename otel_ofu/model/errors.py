"""What can go wrong, as a tree. No traceback of these reaches a user.

OtelOfuError
├── ConfigError      what a user wrote is wrong; holds every problem with its place
└── SourceError      a source does not answer; the agent goes on with gaps
    └── SourceUnavailable   it cannot work on this machine at all
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


def escaped(text: str, kept: str = "") -> str:
    r"""Foreign text for a terminal: control characters and marks that turn its direction as `\x1b`.

    `kept`: those that stay as they are.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in kept else repr(c)[1:-1] for c in text)


class OtelOfuError(Exception):
    """Base of all errors that are told to a user in one line."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One mistake in something a user wrote: `file:line:column: message`.

    `line` and `column` count from 1; 0 means that the place is not known. `source_line` is the
    text of the line as it may be shown, and `caret` the column in it where that differs.
    """

    path: str
    line: int
    column: int
    message: str
    source_line: str = ""
    caret: int = 0

    def __str__(self) -> str:
        position = f"{self.path}:{self.line}:{self.column}" if self.line else self.path
        return escaped(f"{position}: {self.message}")

    def with_caret(self) -> str:
        """The message, the line and a caret under the column."""
        if not self.source_line or not self.column:
            return str(self)
        column = self.caret or self.column
        before = escaped(self.source_line[: column - 1], kept="\t")
        line = escaped(self.source_line, kept="\t")
        pad = "".join("\t" if c == "\t" else " " for c in before)
        return f"{self}\n  {line}\n  {pad}^"


class ConfigError(OtelOfuError):
    """All the problems of one or more files, found in one go."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("\n".join(str(p) for p in problems))
        self.problems = tuple(problems)

    def with_carets(self) -> str:
        """All problems, each with its line and caret, for a terminal."""
        return "\n".join(problem.with_caret() for problem in self.problems)


class SourceError(OtelOfuError):
    """A source did not answer this time: who, in whose words, what still works."""


class SourceUnavailable(SourceError):  # noqa: N818 - a state, not a fault
    """The source cannot work here; `remedy` is the command or setting that would change it."""

    def __init__(self, message: str, remedy: str = "") -> None:
        super().__init__(message)
        self.remedy = remedy
