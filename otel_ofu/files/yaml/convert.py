"""Plain data with positions -> msgspec types.

Enters: a `YamlFile` and a type. Leaves: the value, or a `ConfigError` with all the problems, each
with what the type allows there; those of the file itself come with the conversion of its whole.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import reduce
from operator import getitem
from typing import Any, Generic, TypeVar

import msgspec
from msgspec import inspect

from otel_ofu.files.yaml.parse import Step, Steps, YamlFile
from otel_ofu.model.errors import ConfigError, Problem
from otel_ofu.model.validation import plain_message

MAX_PROBLEMS = 100

T = TypeVar("T")
Hook = Callable[[type[Any], Any], Any]
Pattern = tuple[Step | None, ...]
"""Steps as msgspec gives them: None is some key of a mapping."""


@dataclass(frozen=True)
class ConversionResult(Generic[T]):
    """What a part of a file holds: its value without the bad parts, and a problem for each of them.

    `value` is None when no part of it can be used.
    """

    value: T | None
    problems: Sequence[Problem] = ()
    bad: Collection[Steps] = ()
    _original: Callable[[Steps], Steps] = tuple

    def steps(self, steps: Steps) -> Steps | None:
        """Where a part of the value is in the file; None if it is bad, or holds something bad."""
        original = self._original(steps)
        touched = any(original[: len(b)] == b or b[: len(original)] == original for b in self.bad)
        return None if touched else original


def convert(file: YamlFile, type_: type[T], steps: Steps = (), *, hook: Hook | None = None) -> T:
    """The part of a file under `steps` as `type_`. Raises ConfigError with all problems found.

    `hook` makes values of own types from plain ones; it raises ValueError with what is allowed.
    """
    converted = convert_good(file, type_, steps, hook=hook)
    if converted.problems or converted.value is None:
        raise ConfigError(_in_order(converted.problems))
    return converted.value


def convert_usable(file: YamlFile, type_: type[T]) -> tuple[T, list[Problem]]:
    """The whole file as `type_`, with the problems that leave its values usable, for more checks.

    Those are keys that were left out. Raises ConfigError with all problems if a value is bad.
    """
    converted = convert_good(file, type_)
    if converted.value is None or converted.bad:
        raise ConfigError(_in_order(converted.problems))
    return converted.value, [*converted.problems]


def convert_good(
    file: YamlFile, type_: type[T], steps: Steps = (), *, hook: Hook | None = None
) -> ConversionResult[T]:
    """The part of a file under `steps` as `type_`, as far as it is good.

    msgspec reports one problem at a time: each bad part is cut out and the rest is tried again.
    """
    tree: Any = file.tree
    for step in steps:
        tree = tree[step]
    rest = _Rest({} if tree is None else tree)
    problems: list[Problem] = [] if steps else [*file.problems]
    known = {(problem.line, problem.column) for problem in file.problems}
    while len(problems) < MAX_PROBLEMS:
        try:
            value = msgspec.convert(rest.tree, type_, dec_hook=hook)
        except msgspec.ValidationError as error:
            pattern, message = _split(error)
            where = _found(rest.tree, pattern, _Same(type_, hook, str(error)))
            original = rest.original(where)
            problem = _problem_at(file, steps + original, _worded(type_, original, message))
            repeated = problem in problems
            is_known = (problem.line, problem.column) in known
            if not repeated and not is_known and not rest.is_echo(original, message):
                problems.append(problem)
            if repeated or not rest.cut(where, original):
                break
        else:
            return ConversionResult(value, problems, rest.bad, rest.original)
    return ConversionResult(None, problems, rest.bad, rest.original)


def _in_order(problems: Sequence[Problem]) -> list[Problem]:
    return sorted(problems, key=lambda problem: (problem.line, problem.column))


@dataclass(frozen=True)
class _Same:
    """Whether a tree has one certain mistake, with the same message, as its first."""

    type_: type[Any]
    hook: Hook | None
    message: str

    def __call__(self, tree: Any) -> bool:  # noqa: ANN401 - plain YAML data
        try:
            msgspec.convert(tree, self.type_, dec_hook=self.hook)
        except msgspec.ValidationError as error:
            return str(error) == self.message
        return False


def _found(tree: Any, pattern: Pattern, same: Callable[[Any], bool]) -> Steps:  # noqa: ANN401
    """The steps to the bad part, with the keys that msgspec does not name."""
    steps: Steps = ()
    for given in pattern:
        step = _bad_key(tree, steps, same) if given is None else given
        if step is None:
            return steps
        if given is None:
            tree = _put(tree, steps, {step: reduce(getitem, steps, tree)[step]})
        steps = (*steps, step)
    return steps


def _bad_key(tree: Any, steps: Steps, same: Callable[[Any], bool]) -> str | None:  # noqa: ANN401
    """The last of the fewest first keys that fail: msgspec reads them in their order."""
    mapping = reduce(getitem, steps, tree)

    def fails(count: int) -> bool:
        return same(_put(tree, steps, dict(items[:count])))

    items = list(mapping.items()) if isinstance(mapping, Mapping) else []
    if not items or fails(0):
        return None
    last = bisect_left(range(1, len(items)), x=True, key=fails)
    return str(items[last][0])


def _put(tree: Any, steps: Steps, value: Any) -> Any:  # noqa: ANN401 - plain YAML data
    if not steps:
        return value
    return _replaced(tree, steps[0], _put(tree[steps[0]], steps[1:], value))


class _Rest:
    """What is left of a tree after bad parts were cut out of it, and where its parts stood."""

    def __init__(self, tree: Any) -> None:  # noqa: ANN401 - plain YAML data
        self.tree = tree
        self.bad: set[Steps] = set()
        self._dropped: dict[Steps, int] = {}

    def original(self, where: Steps) -> Steps:
        """The steps in the file of the part that is now at `where`: list items may have moved."""
        original: Steps = ()
        for step in where:
            moved = self._dropped.get(original, 0) if isinstance(step, int) else 0
            original = (*original, step + moved if isinstance(step, int) else step)
        return original

    def is_echo(self, where: Steps, message: str) -> bool:
        """Whether a key is missing only because its bad value was cut out."""
        missing = _MISSING.search(message)
        return missing is not None and (*where, missing["name"]) in self.bad

    def cut(self, where: Steps, original: Steps) -> bool:
        """Cuts out the part at `where`; False when it is the whole."""
        if not where:
            return False
        self.bad.add(original)
        self.tree = self._without(self.tree, where, original)
        return True

    def _without(self, tree: Any, where: Steps, original: Steps) -> Any:  # noqa: ANN401
        step, *deeper = where
        if deeper:
            inner = self._without(tree[step], tuple(deeper), original)
            return _replaced(tree, step, inner)
        if isinstance(tree, Mapping):
            return {key: value for key, value in tree.items() if key != step}
        return self._without_item(tree, int(step), original[:-1])

    def _without_item(self, tree: Sequence[Any], index: int, original: Steps) -> list[Any]:
        """A first item goes; a later one becomes a copy of the first, which is known to be good."""
        if index:
            return [*tree[:index], tree[0], *tree[index + 1 :]]
        self._dropped[original] = self._dropped.get(original, 0) + 1
        return list(tree[1:])


def _replaced(tree: Any, step: Step, value: Any) -> Any:  # noqa: ANN401 - plain YAML data
    if isinstance(tree, Mapping):
        return {**tree, step: value}
    index = int(step)
    return [*tree[:index], value, *tree[index + 1 :]]


_PATH = re.compile(r" - at `(?P<path>.*)`$", re.DOTALL)
_STEP = re.compile(r"\.(?P<name>[^.\[\]]+)|\[(?P<index>\d+)\]|\[\.\.\.\]")
_FIELD = re.compile(r"unknown field `(?P<name>[^`]*)`")
_MISSING = re.compile(r"missing required field `(?P<name>[^`]*)`")


def _split(error: msgspec.ValidationError) -> tuple[Pattern, str]:
    text = str(error)
    found = _PATH.search(text)
    where: list[Step | None] = []
    if found:
        text = text[: found.start()]
        where += [_step(step) for step in _STEP.finditer(found["path"])]
        if found["path"].startswith("key` in "):
            text = text.replace("Invalid enum value", "unknown key")
            where.append(None)
    unknown = _FIELD.search(text)
    if unknown:
        where.append(unknown["name"])
    return tuple(where), text


def _step(found: re.Match[str]) -> Step | None:
    return found["name"] if found["index"] is None else int(found["index"])


def _problem_at(file: YamlFile, steps: Steps, message: str) -> Problem:
    at_key = message.startswith("unknown key") or "is no longer supported; " in message
    return file.key_problem(steps, message) if at_key else file.problem(steps, message)


def _worded(type_: type[Any], steps: Steps, message: str) -> str:
    """The message of msgspec in the terms of somebody who writes YAML, with what is allowed."""
    name = str(steps[-1]) if steps else ""
    if _FIELD.search(message):
        if instead := _allowed_instead_of(type_, steps[:-1], name):
            return f"the key {name!r} is no longer supported; {instead}"
        return f"unknown key {name!r}{_allowed_keys(type_, steps[:-1], name)}"
    if message.startswith("unknown key"):
        return message + _allowed_key_choices(type_, steps[:-1])
    if message.startswith("Invalid enum value"):
        return message.replace("Invalid enum value", "unknown value") + _allowed_choices(
            type_, steps
        )
    return plain_message(message)


MAX_LISTED = 24


def _allowed_choices(type_: type[Any], steps: Steps) -> str:
    """`; one of: a, b` for the choice at `steps`, or nothing."""
    found = _at(inspect.type_info(type_), steps)
    values = [v for t in found if isinstance(t, inspect.LiteralType) for v in t.values]
    return f"; one of: {', '.join(str(v) or '(empty)' for v in values)}" if values else ""


def _allowed_key_choices(type_: type[Any], steps: Steps) -> str:
    """`; one of: a, b` for the keys of the mapping at `steps`, or nothing when all are allowed."""
    found = [t for t in _at(inspect.type_info(type_), steps) if isinstance(t, inspect.DictType)]
    keys_ = [key for t in found for key in _flat(t.key_type)]
    values = [v for t in keys_ if isinstance(t, inspect.LiteralType) for v in t.values]
    return f"; one of: {', '.join(str(v) for v in values)}" if values else ""


def _allowed_keys(type_: type[Any], steps: Steps, wrong: str) -> str:
    """`; did you mean x?` or `; allowed: a, b` for the block at `steps`."""
    found = _at(inspect.type_info(type_), steps)
    names = [f.encode_name for t in found if isinstance(t, inspect.StructType) for f in t.fields]
    near = get_close_matches(wrong, names, n=1)
    if near:
        return f"; did you mean {near[0]}?"
    return f"; allowed: {', '.join(names[:MAX_LISTED])}" if names else ""


def _allowed_instead_of(type_: type[Any], steps: Steps, wrong: str) -> str:
    """What to write in place of a key that the block at `steps` had once: see its `REMOVED`."""
    found = _at(inspect.type_info(type_), steps)
    removed = [getattr(t.cls, "REMOVED", {}) for t in found if isinstance(t, inspect.StructType)]
    return next((keys_[wrong] for keys_ in removed if wrong in keys_), "")


def _at(info: inspect.Type, steps: Steps) -> list[inspect.Type]:
    types = _flat(info)
    for step in steps:
        types = [inner for t in types for part in _part(t, step) for inner in _flat(part)]
    return types


def _flat(info: inspect.Type) -> list[inspect.Type]:
    if isinstance(info, inspect.UnionType):
        return [inner for t in info.types for inner in _flat(t)]
    if isinstance(info, inspect.Metadata):
        return _flat(info.type)
    return [info]


def _part(info: inspect.Type, step: Step) -> list[inspect.Type]:
    if isinstance(info, inspect.StructType):
        return [f.type for f in info.fields if f.encode_name == step]
    if isinstance(info, inspect.DictType):
        return [info.value_type]
    if isinstance(info, inspect.ListType | inspect.VarTupleType):
        return [info.item_type]
    return []
