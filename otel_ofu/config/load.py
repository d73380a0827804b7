"""A file -> `Config`, with every mistake in it.

Enters: a path or a text. Leaves: the configuration, or a ConfigError; no line that it shows holds
what could be a secret.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import cast

import msgspec
from msgspec import inspect

from otel_ofu import notify
from otel_ofu.config.types import Config
from otel_ofu.files.settings import CheckContext, hook, mistakes
from otel_ofu.files.yaml import (
    ADDRESS,
    PATH,
    PLAIN,
    Step,
    Steps,
    YamlFile,
    convert_good,
    keys_only,
    parse_yaml,
    read_yaml,
)
from otel_ofu.model.errors import ConfigError, Problem

_PLAIN_TYPES = (
    inspect.BoolType,
    inspect.IntType,
    inspect.FloatType,
    inspect.LiteralType,
    inspect.NoneType,
)
_PATH_ENDS = ("_file", "_dir", "path")
_LISTEN = "listen"
"""How the keys of paths end, and the key of an address of this machine."""


@dataclass(frozen=True)
class ReadConfig:
    """A file as it was read: what of it can be used, and every mistake.

    Without a file the defaults hold. No problem shows what could be a token or a password.
    """

    config: Config
    problems: Sequence[Problem] = ()
    mistaken: Sequence[Steps] = ()
    _file: YamlFile | None = None

    def is_mistaken(self, *steps: Step) -> bool:
        """Whether a mistake is at or above these steps."""
        return any(steps[: len(each)] == each for each in self.mistaken)

    def holds_mistakes(self, *steps: Step) -> bool:
        """Whether a mistake is at or below these steps."""
        return any(each[: len(steps)] == steps for each in self.mistaken)

    def problem(self, steps: Steps, message: str) -> Problem:
        """A problem at a key of the file; without a file, or without the key, it names the key."""
        key = ".".join(str(step) for step in steps)
        if self._file is None:
            return Problem(key, 0, 0, message)
        if steps not in self._file.positions:
            message = f"{key}: {message}"
        return _masked([self._file.problem(steps, message)])[0]


def load_config(path: str | Path, environ: Mapping[str, str] | None = None) -> Config:
    """The configuration in a file. Raises ConfigError with every mistake and its position."""
    return _good(read_config(path, environ))


def config_from_text(
    text: str, path: str = "otel-ofu.yaml", environ: Mapping[str, str] | None = None
) -> Config:
    """The configuration in a text. Raises ConfigError with every mistake and its position."""
    return _good(config_read_from_text(text, path, environ))


def _good(read: ReadConfig) -> Config:
    if read.problems:
        raise ConfigError(read.problems)
    return read.config


def read_config(path: str | Path | None, environ: Mapping[str, str] | None = None) -> ReadConfig:
    """The file with its mistakes. Raises ConfigError if it cannot be read as YAML at all."""
    if path is None:
        return ReadConfig(Config())
    with _no_secret_shown():
        file = read_yaml(path)
    return _read(file, environ)


def config_read_from_text(
    text: str, path: str = "otel-ofu.yaml", environ: Mapping[str, str] | None = None
) -> ReadConfig:
    """As `read_config`, of a text."""
    with _no_secret_shown():
        file = parse_yaml(text, path)
    return _read(file, environ)


def _read(file: YamlFile, environ: Mapping[str, str] | None) -> ReadConfig:
    type_, problems = config_type(file)
    converted = convert_good(file, type_, hook=hook)
    problems += converted.problems
    if converted.value is None:
        return ReadConfig(Config(), _masked(problems), [()], file)
    around = CheckContext(time.time(), os.environ if environ is None else environ)
    found = [
        (original, message)
        for steps, message in mistakes(converted.value, around)
        if (original := converted.steps(steps)) is not None
    ]
    problems += [file.problem(*mistake) for mistake in found]
    problems.sort(key=lambda problem: (problem.line, problem.column))
    mistaken = [*converted.bad, *(steps for steps, _ in found)]
    return ReadConfig(converted.value, _masked(problems), mistaken, file)


@contextmanager
def _no_secret_shown() -> Iterator[None]:
    try:
        yield
    except ConfigError as error:
        raise ConfigError(_masked(error.problems)) from None


def _masked(problems: Sequence[Problem]) -> list[Problem]:
    """The problems without any text of the file that could be a token or a password."""
    forms = _shown_forms()
    return [keys_only(problem, forms) for problem in problems]


@cache
def _shown_forms() -> Mapping[str, re.Pattern[str]]:
    """Key -> what may be shown of its value: those of numbers and choices, paths and addresses."""
    plain: set[str] = set()
    other: set[str] = set()
    for struct in _structs(inspect.type_info(Config), set()):
        for field in struct.fields:
            (plain if _is_plain(field.type) else other).add(field.encode_name)
    paths = {key for key in other if key.endswith(_PATH_ENDS)}
    return {
        **dict.fromkeys(plain - other, PLAIN),
        **dict.fromkeys(paths, PATH),
        _LISTEN: ADDRESS,
    }


def _is_plain(type_: inspect.Type) -> bool:
    if isinstance(type_, inspect.Metadata):
        return bool((type_.extra or {}).get("public")) or _is_plain(type_.type)
    if isinstance(type_, inspect.UnionType):
        return all(_is_plain(part) for part in type_.types)
    if isinstance(type_, inspect.CustomType):
        return issubclass(type_.cls, int | float)
    return isinstance(type_, _PLAIN_TYPES)


def _structs(type_: inspect.Type, seen: set[type]) -> Iterator[inspect.StructType]:
    if isinstance(type_, inspect.StructType):
        if type_.cls in seen:
            return
        seen.add(type_.cls)
        yield type_
    for part in _parts(type_):
        yield from _structs(part, seen)


def _parts(type_: inspect.Type) -> Iterable[inspect.Type]:
    if isinstance(type_, inspect.StructType):
        return [field.type for field in type_.fields]
    if isinstance(type_, inspect.UnionType):
        return type_.types
    if isinstance(type_, inspect.DictType):
        return [type_.value_type]
    return [type_.item_type] if isinstance(type_, inspect.ListType | inspect.VarTupleType) else []


def config_type(file: YamlFile) -> tuple[type[Config], list[Problem]]:
    """`Config`, or a subclass with the blocks of plugins; only what the file names is loaded."""
    block = file.tree.get("route") if isinstance(file.tree, dict) else None
    route, mistakes = notify.settings_type(block)
    if route is notify.RouteSettings:
        return Config, []
    made = msgspec.defstruct(
        "Config",
        [("route", route, msgspec.field(default_factory=route))],
        bases=(Config,),
        module=__name__,
        frozen=True,
        kw_only=True,
        forbid_unknown_fields=True,
    )
    problems = [file.key_problem(("route", *steps), message) for steps, message in mistakes]
    return cast("type[Config]", made), problems
