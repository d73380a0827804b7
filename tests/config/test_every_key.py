"""Every key of the configuration, found through its types, refuses what it cannot use, at its line.

Text without a constraint, true and false take every value of their type. What several keys have to
fulfil together has tests of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import pytest
import yaml
from msgspec import NODEFAULT, Meta
from msgspec.structs import FieldInfo, fields

from otel_ofu.app.prepare import prepare
from otel_ofu.config import Config, config_read_from_text
from otel_ofu.files.settings import (
    Constraint,
    Duration,
    ExistingFile,
    ParsedText,
    Percent,
    QuantityRange,
    Settings,
    Size,
    WritableFile,
    WritableFolder,
    written,
)
from otel_ofu.files.yaml import Steps, parse_yaml
from otel_ofu.model.errors import ConfigError

NONSENSE = "é(= ?"
"""No address, URL, pattern, path, time or name of anything; its file does not exist."""
IMPOSSIBLE: Mapping[type, str] = {
    ParsedText: NONSENSE,
    Meta: NONSENSE,
    ExistingFile: "/nonexistent/file",
    WritableFile: "/dev/null/file",
    WritableFolder: "/dev/null/folder",
}
NEEDED: Mapping[str, Any] = {"url": "http://host", "name": "a", "value": "b", "start_time": "01:00"}
"""For the keys without a default beside the one that is tried."""
EVERY_VALUE_IS_GOOD = (str, bool)
QUANTITIES = (Duration, Size, Percent, int, float)


@dataclass(frozen=True)
class Key:
    """Where it is, and the type of what stands there; `steps` of an item end with its index."""

    steps: Steps
    type: Any

    def __str__(self) -> str:
        return ".".join(map(str, self.steps))

    @property
    def plain(self) -> Any:  # noqa: ANN401 - any annotation
        return get_args(self.type)[0] if get_origin(self.type) is Annotated else self.type

    @property
    def constraints(self) -> list[Constraint | Meta]:
        return list(getattr(self.type, "__metadata__", ()))


def keys_of(type_: Any, steps: Steps) -> Iterator[Key]:  # noqa: ANN401 - any annotation
    """The keys at and below `steps`, whose value has this type."""
    origin, inner = get_origin(type_), get_args(type_)
    if origin in (Union, UnionType):
        yield from keys_of(next(each for each in inner if each is not NoneType), steps)
    elif origin is list:
        yield Key(steps, list)
        yield from keys_of(inner[0], (*steps, 0))
    elif origin is dict:
        yield Key(steps, dict)
        yield from keys_of(inner[1], (*steps, "a"))
    elif isinstance(type_, type) and issubclass(type_, Settings):
        yield Key(steps, type_)
        for each in fields(type_):
            yield from keys_of(each.type, (*steps, each.encode_name))
    elif type_ is not Any:  # the block of a plugin has types of its own
        yield Key(steps, type_)


KEYS = [key for key in keys_of(Config, ()) if key.steps]


def of_wrong_type(key: Key) -> object:
    if key.plain is str:
        return [1]
    if key.plain is bool or get_origin(key.plain) is Literal:
        return "nonsense"
    return "nonsense" if key.plain in (list, dict, *QUANTITIES) else 7


def impossible(key: Key) -> Iterator[object]:
    """Values of the type that the key cannot use."""
    for constraint in key.constraints:
        if not isinstance(constraint, QuantityRange):
            yield IMPOSSIBLE[type(constraint)]
            continue
        low, high = constraint.low, constraint.high
        if low > 0 or key.plain is int:
            yield _written(key, 0 if low > 0 else low - 1)
        if high is not None:
            yield _written(key, high * 2)


def _written(key: Key, number: float) -> object:
    if key.plain is int:
        return int(number)
    text = written(key.plain(number))
    return f"{number}B" if key.plain is Size else text


@pytest.mark.parametrize("key", KEYS, ids=str)
def test_a_value_of_another_type_is_refused_at_its_line(key: Key) -> None:
    refused(key, of_wrong_type(key))


@pytest.mark.parametrize("key", [key for key in KEYS if key.constraints], ids=str)
def test_an_impossible_value_is_refused_at_its_line(key: Key) -> None:
    for value in impossible(key):
        refused(key, value)


def test_each_quantity_has_a_range_and_each_other_key_a_type_that_says_what_is_allowed() -> None:
    for key in KEYS:
        if key.plain in QUANTITIES:
            assert any(isinstance(each, QuantityRange) for each in key.constraints), key
        elif not key.constraints and get_origin(key.plain) is not Literal:
            block = key.plain in (list, dict) or issubclass(key.plain, Settings)
            assert block or key.plain in EVERY_VALUE_IS_GOOD, key


def refused(key: Key, value: object) -> None:
    """Holds `run --check` to a message at the line of the key, which is not there without it."""
    tree = planted(Config, key.steps, value)
    text = yaml.safe_dump(tree, allow_unicode=True, sort_keys=False)
    line, _ = parse_yaml(text, "c.yaml").positions[key.steps]
    found = [problem for problem in problems(text) if problem[0] == line]
    without = config_read_from_text(_without(tree, key), "c.yaml", {}).problems
    known = {problem.message for problem in without}
    assert any(message not in known for _, message in found), (text, problems(text))


def problems(text: str) -> list[tuple[int, str]]:
    read = config_read_from_text(text, "c.yaml", {})
    found = read.problems
    if not found:  # else `prepare` adds to them, and takes a second
        try:
            prepare(read, {})
        except ConfigError as error:
            found = error.problems
    return [(problem.line, problem.message) for problem in found]


def _without(tree: object, key: Key) -> str:
    """The same, with the default in place of the value: what is needed beside it stays."""
    return yaml.safe_dump(_cut(tree, key.steps), allow_unicode=True, sort_keys=False)


def _cut(tree: Any, steps: Steps) -> Any:  # noqa: ANN401 - plain YAML data
    step, *rest = steps
    if isinstance(tree, list):
        return [_cut(tree[0], tuple(rest))] if rest else []
    if rest:
        return {**tree, step: _cut(tree[step], tuple(rest))}
    return {name: value for name, value in tree.items() if name != step}


def planted(type_: Any, steps: Steps, value: object) -> Any:  # noqa: ANN401 - any annotation
    """The least tree with a value at `steps`, and the keys without a default beside it."""
    if not steps:
        return value
    origin, inner = get_origin(type_), get_args(type_)
    if origin in (Union, UnionType):
        return planted(next(each for each in inner if each is not NoneType), steps, value)
    if origin is list:
        return [planted(inner[0], steps[1:], value)]
    if origin is dict:
        return {steps[0]: planted(inner[1], steps[1:], value)}
    found = {each.encode_name: needed(each) for each in fields(type_) if each.required}
    field = next(each for each in fields(type_) if each.encode_name == steps[0])
    return {**found, str(steps[0]): planted(field.type, steps[1:], value)}


def needed(field: FieldInfo) -> object:
    assert field.default is NODEFAULT
    if get_origin(field.type) is list:
        return []
    return "02:00" if field.encode_name == "end_time" else NEEDED[field.encode_name]
