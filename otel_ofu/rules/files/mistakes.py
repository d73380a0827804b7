"""Mistakes of one file as they are found, each with its line and column; durations and shares.

Enters: a `YamlFile`, the steps to a text value, an offset into that value. Leaves: the position,
for plain, quoted and block scalars. Folding and indentation only ever change white space, so the
value is laid along the raw text, and white space that differs is stepped over.
"""

from __future__ import annotations

import bisect
import re
from collections.abc import Iterator, Sequence

import yaml

from otel_ofu.catalog.registry import Registry
from otel_ofu.files.yaml import Steps, YamlFile, problem_at
from otel_ofu.model import EntityKind
from otel_ofu.model.errors import ConfigError, Problem
from otel_ofu.rules.files.rule import FilePosition
from otel_ofu.rules.files.shape import DURATION_PATTERN
from otel_ofu.rules.language.language import parse_condition
from otel_ofu.rules.language.parsing import OUT_OF_ORDER, LanguageError, in_order, milliseconds
from otel_ofu.rules.language.syntax import Expression

_DURATION = re.compile(DURATION_PATTERN)
MAX_S = 90 * 86_400.0
"""Starting value: longer than any shift, and than what a store keeps."""


def duration_s(text: str | float) -> float:
    """`1h30m` in seconds, at most 90 days; 0 needs no unit. Raises ValueError."""
    written = str(text)
    if len(written) > 40 or not _DURATION.fullmatch(written):  # noqa: PLR2004 - 1w6d23h59m59s999ms
        raise ValueError(f"expected a duration such as 30s, 10m or 1h30m, not {written[:40]!r}")
    if not in_order(written):
        raise ValueError(f"{written}: {OUT_OF_ORDER}")
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


class RuleMistakes:
    """Owned by one load; a value that cannot be read is noted and a default stands in."""

    def __init__(self, file: YamlFile, problems: Sequence[Problem] = ()) -> None:
        self.file = file
        self.problems = [*problems]

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


_BREAK = re.compile(r"\r\n|[\r\n\x85\u2028\u2029]")
_ESCAPE = re.compile(r"\\(x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|\r\n|.)", re.DOTALL)
_ESCAPED = {
    "0": "\0",
    "a": "\a",
    "b": "\b",
    "t": "\t",
    "\t": "\t",
    "n": "\n",
    "v": "\v",
    "f": "\f",
    "r": "\r",
    "e": "\x1b",
    "N": "\x85",
    "_": "\xa0",
    "L": "\u2028",
    "P": "\u2029",
}

# A character of the raw text or an escape: where it stands, and what it means.
_Char = tuple[int, str]


def condition_in(file: YamlFile, steps: Steps, each: EntityKind, registry: Registry) -> Expression:
    """The condition under `steps` of a file. Raises ConfigError, a problem a mistake."""
    text = file.scalars[steps].value
    try:
        return parse_condition(text, each, registry)
    except LanguageError as error:
        raise ConfigError(
            [problem_in(file, steps, m.offset, m.message) for m in error.mistakes]
        ) from error


def problem_in(file: YamlFile, steps: Steps, offset: int, message: str) -> Problem:
    """A problem at character `offset` (from 0) of the text value under `steps`."""
    if steps not in file.scalars:
        return file.problem(steps, message)
    line, column = line_column(file, steps, offset)
    return problem_at(file.path, file.text, line, column, message)


def line_column(file: YamlFile, steps: Steps, offset: int) -> tuple[int, int]:
    """Line and column, from 1, of character `offset` of the text value under `steps`."""
    node = file.scalars[steps]
    starts = [0, *(found.end() for found in _BREAK.finditer(file.text))]
    begin = starts[node.start_mark.line] + node.start_mark.column
    end = _position(starts, node.end_mark, len(file.text))
    position = _raw_position(file.text[begin:end], node, offset) + begin
    line = bisect.bisect_right(starts, position)
    return line, position - starts[line - 1] + 1


def _position(starts: list[int], mark: yaml.Mark, length: int) -> int:
    return starts[mark.line] + mark.column if mark.line < len(starts) else length


def _raw_position(raw: str, node: yaml.ScalarNode, offset: int) -> int:
    """Where in the raw text of a scalar the character `offset` of its value stands."""
    characters = list(_characters(raw, node.style))
    at = 0
    after = characters[0][0] if characters else 0
    for character in node.value[:offset]:
        at = _beyond(characters, at, character)
        if not character.isspace():
            after = characters[at][0] if at < len(characters) else len(raw)
    if offset >= len(node.value.rstrip()):
        return after
    while at < len(characters) and _is_layout(characters, at) and not node.value[offset].isspace():
        at += 1
    return characters[min(at, len(characters) - 1)][0]


def _beyond(characters: list[_Char], at: int, character: str) -> int:
    """The index after the one that `character` of the value came from."""
    if character.isspace():
        return at + 1 if at < len(characters) and characters[at][1].isspace() else at
    while at < len(characters) and characters[at][1] != character:
        at += 1
    return at + 1


def _is_layout(characters: list[_Char], at: int) -> bool:
    return characters[at][1].isspace() or not characters[at][1]


def _characters(raw: str, style: str | None) -> Iterator[_Char]:
    """The characters of a scalar without quotes and block header; the end as an empty piece."""
    match style:
        case "'":
            yield from _single_quoted(raw)
        case '"':
            yield from _double_quoted(raw)
        case "|" | ">":
            header = _BREAK.search(raw)
            yield from ((i, raw[i]) for i in range(header.end() if header else len(raw), len(raw)))
        case _:
            yield from enumerate(raw)
    yield len(raw) - (style in {"'", '"'}), ""


def _single_quoted(raw: str) -> Iterator[_Char]:
    at = 1
    while at < len(raw) - 1:
        yield at, raw[at]
        at += 2 if raw[at] == "'" else 1


def _double_quoted(raw: str) -> Iterator[_Char]:
    at = 1
    while at < len(raw) - 1:
        escape = _ESCAPE.match(raw, at)
        if escape is None:
            yield at, raw[at]
        elif not _BREAK.match(escape[1]):
            yield at, _meaning(escape[1])
        at = escape.end() if escape else at + 1


def _meaning(escape: str) -> str:
    if escape[0] in "xuU" and len(escape) > 1:
        return chr(int(escape[1:], 16))
    return _ESCAPED.get(escape, escape)
