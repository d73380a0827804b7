"""YAML text -> plain data with the position of every part.

Enters: text that a user wrote. Leaves: a `YamlFile`, which holds the problems that leave the rest
readable; or a `ConfigError` where nothing can be read. Only plain data is read (`SafeLoader`);
duplicate keys, anchors, tags, tabs, non-UTF-8, oversize files and what is no regular file are
refused.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from otel_ofu.files.yaml.shown import without_user
from otel_ofu.model.errors import ConfigError, Problem

MAX_BYTES = 1024 * 1024
MAX_NODES = 100_000
MAX_DEPTH = 32
MAX_SHOWN = 200
MAX_PROBLEMS = 100

Step = str | int
Steps = tuple[Step, ...]


@dataclass(frozen=True)
class YamlFile:
    """A parsed file: plain data, and the position of every key and value in it.

    `problems`: what was left out of the data; whoever converts the whole file reports them.
    """

    path: str
    text: str
    tree: Any
    positions: Mapping[Steps, tuple[int, int]] = field(repr=False)
    scalars: Mapping[Steps, yaml.ScalarNode] = field(repr=False)
    problems: Sequence[Problem] = ()

    def problem(self, steps: Steps, message: str) -> Problem:
        """A problem at the value under `steps`, or at the nearest part above that exists."""
        while steps and steps not in self.positions:
            steps = steps[:-1]
        line, column = self.positions.get(steps, (1, 1))
        return problem_at(self.path, self.text, line, column, message)

    def key_problem(self, steps: Steps, message: str) -> Problem:
        """A problem at the key under `steps` itself rather than at its value."""
        return self.problem((*steps, KEY), message)


KEY = "\0key"
_NODES_A_CHARACTER = 4
"""At most: `?` alone is a mapping, a key and a value."""
_IN_PLAIN_WORDS = {
    "but found another document": "a second document; write one document in each file"
}
_MERGE = "tag:yaml.org,2002:merge"
_PLAIN = ("tag:yaml.org,2002:map", "tag:yaml.org,2002:seq")


def problem_at(path: str, text: str, line: int, column: int, message: str) -> Problem:
    """A problem with the text of its line; `line` and `column` count from 1."""
    lines = text.splitlines()
    source = lines[line - 1] if 0 < line <= len(lines) else ""
    shown = source if len(source) <= MAX_SHOWN else ""
    return without_user(Problem(path, line, column, message, shown))


def read_yaml(path: str | Path) -> YamlFile:
    """Reads and parses a file. Raises ConfigError if nothing of it can be read."""
    name = str(path)
    try:
        raw = _read(path)
    except OSError as error:
        raise ConfigError([Problem(name, 0, 0, f"cannot be read: {error.strerror}")]) from error
    return parse_yaml(raw, name)


def _read(path: str | Path) -> bytes:
    # Checked before as well: to open a FIFO waits for its writer, to open a device can do things.
    _refuse_irregular(path, Path(path).stat())
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb") as stream:  # noqa: PTH123 - a descriptor
        _refuse_irregular(path, os.fstat(descriptor))
        return stream.read(MAX_BYTES + 1)


def _refuse_irregular(path: str | Path, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise ConfigError([Problem(str(path), 0, 0, "not a regular file")])


def parse_yaml(raw: bytes | str, path: str) -> YamlFile:
    """Parses YAML text. Raises ConfigError for anything that is not one document."""
    text = _decode(raw, path)
    try:
        _count_nodes(path, text)
        node = yaml.compose(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        raise ConfigError([_syntax_problem(path, text, error)]) from error
    except yaml.reader.ReaderError as error:
        raise ConfigError([_character_problem(path, text, error)]) from error
    except RecursionError as error:
        raise ConfigError([Problem(path, 0, 0, f"nested deeper than {MAX_DEPTH}")]) from error
    return _build(path, text, node)


def _decode(raw: bytes | str, path: str) -> str:
    if len(raw) > MAX_BYTES:
        limit = MAX_BYTES // 1024 // 1024
        raise ConfigError([Problem(path, 0, 0, f"larger than {limit} MiB, the most allowed")])
    if isinstance(raw, str):
        return raw
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        column = error.start - raw.rfind(b"\n", 0, error.start)
        message = f"not UTF-8: byte 0x{raw[error.start]:02x}"
        raise ConfigError([Problem(path, line, column, message)]) from error


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """The safe loader with YAML 1.2 booleans: only true and false."""

    yaml_implicit_resolvers = {  # noqa: RUF012 - overrides a class attribute of yaml
        first: [(tag, regexp) for tag, regexp in resolvers if tag != "tag:yaml.org,2002:bool"]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:bool", re.compile(r"^(?:true|True|TRUE|false|False|FALSE)$"), list("tTfF")
)


def _count_nodes(path: str, text: str) -> None:
    """Refuses many tiny nodes before any is kept: each costs far more memory than its text."""
    if len(text) <= MAX_NODES // _NODES_A_CHARACTER:
        return
    nodes = 0
    for event in yaml.parse(text, Loader=_Loader):
        if not isinstance(event, yaml.NodeEvent):
            continue
        nodes += 1
        if nodes > MAX_NODES:
            line, column = _start(event)
            message = f"more than {MAX_NODES:,} keys and values, the most allowed"
            raise ConfigError([problem_at(path, text, line, column, message)])


def _syntax_problem(path: str, text: str, error: yaml.MarkedYAMLError) -> Problem:
    mark = error.problem_mark or error.context_mark
    line, column = (mark.line + 1, mark.column + 1) if mark else (0, 0)
    message = error.problem or error.context or "not valid YAML"
    message = _IN_PLAIN_WORDS.get(message, message)
    lines = text.splitlines()
    if 0 < line <= len(lines) and "\t" in lines[line - 1][: column + 1]:
        column = lines[line - 1].index("\t") + 1
        message = "a tab: YAML is indented with spaces"
    return problem_at(path, text, line, column, message)


def _character_problem(path: str, text: str, error: yaml.reader.ReaderError) -> Problem:
    position = error.position if isinstance(error.position, int) else 0
    line = text.count("\n", 0, position) + 1
    column = position - text.rfind("\n", 0, position)
    message = f"character {error.character!r} is not allowed in YAML"
    return problem_at(path, text, line, column, message)


def _build(path: str, text: str, node: yaml.Node | None) -> YamlFile:
    walk = _Walk(path, text)
    tree = walk.value(node, ()) if node is not None else None
    return YamlFile(path, text, tree, walk.positions, walk.scalars, walk.problems)


class _Walk:
    """One pass over the node tree: data, positions, and what is refused."""

    def __init__(self, path: str, text: str) -> None:
        self._path = path
        self._text = text
        self._seen: set[int] = set()
        self._constructor = yaml.constructor.SafeConstructor()
        self.positions: dict[Steps, tuple[int, int]] = {}
        self.scalars: dict[Steps, yaml.ScalarNode] = {}
        self.problems: list[Problem] = []

    def value(self, node: yaml.Node, steps: Steps) -> Any:  # noqa: ANN401 - plain YAML data
        self.positions[steps] = _start(node)
        if len(steps) > MAX_DEPTH:
            return self._refuse(node, f"nested deeper than {MAX_DEPTH}")
        if id(node) in self._seen:
            return self._refuse(node, "aliases are not supported; write the value out")
        self._seen.add(id(node))
        if not isinstance(node, yaml.ScalarNode) and node.tag not in _PLAIN:
            return self._refuse_tag(node)
        if isinstance(node, yaml.MappingNode):
            return dict(self._items(node, steps))
        if isinstance(node, yaml.SequenceNode):
            return [self.value(child, (*steps, i)) for i, child in enumerate(node.value)]
        return self._scalar(node, steps)

    def _items(self, node: yaml.MappingNode, steps: Steps) -> Iterator[tuple[str, Any]]:
        first: dict[str, int] = {}
        for key_node, value_node in node.value:
            key = key_node.value if isinstance(key_node, yaml.ScalarNode) else None
            if refused := _refused_key(key, key_node, first):
                self._refuse(key_node, refused)
                continue
            assert key is not None  # noqa: S101 - refused above
            first[key] = _start(key_node)[0]
            self.positions[(*steps, key, KEY)] = _start(key_node)
            yield key, self.value(value_node, (*steps, key))

    def _scalar(self, node: yaml.Node, steps: Steps) -> Any:  # noqa: ANN401 - plain YAML data
        assert isinstance(node, yaml.ScalarNode)  # noqa: S101 - the third and last node kind
        self.scalars[steps] = node
        if not node.tag.startswith("tag:yaml.org,2002:") or node.tag.endswith(
            ("timestamp", "binary")
        ):
            return node.value if node.tag.endswith("timestamp") else self._refuse_tag(node)
        try:
            return self._constructor.construct_object(node)
        except (ValueError, yaml.YAMLError):
            return self._refuse(node, "not a valid value")

    def _refuse_tag(self, node: yaml.Node) -> None:
        self._refuse(node, "tags are not supported; put text that begins with ! in quotes")

    def _refuse(self, node: yaml.Node, message: str) -> None:
        if len(self.problems) == MAX_PROBLEMS:
            return
        line, column = _start(node)
        self.problems.append(problem_at(self._path, self._text, line, column, message))


def _refused_key(key: str | None, node: yaml.Node, first: Mapping[str, int]) -> str:
    """Why a key is not read; empty if it is. `first` has the lines of the keys before it."""
    if node.tag == _MERGE:
        return "merge keys (<<) are not supported; write the keys out"
    if key is None:
        return "a key must be plain text"
    return f"duplicate key {key!r}, first on line {first[key]}" if key in first else ""


def _start(node: yaml.Node | yaml.NodeEvent) -> tuple[int, int]:
    assert node.start_mark is not None  # noqa: S101 - only events made by hand have none
    return node.start_mark.line + 1, node.start_mark.column + 1
