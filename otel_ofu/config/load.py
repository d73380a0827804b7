"""A file -> `Config`, with every mistake in it.

Enters: a path or a text. Leaves: the configuration, or a ConfigError; no line that it shows holds
what could be a secret.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from msgspec import inspect

from otel_ofu.config.plugins import config_type
from otel_ofu.config.types import Config
from otel_ofu.files.settings import Surroundings, hook, mistakes
from otel_ofu.files.yaml import YamlFile, convert, keys_only, parse_yaml, read_yaml
from otel_ofu.model.errors import ConfigError

_PLAIN_TYPES = (
    inspect.BoolType,
    inspect.IntType,
    inspect.FloatType,
    inspect.LiteralType,
    inspect.NoneType,
)


def load_config(path: str | Path, environ: Mapping[str, str] | None = None) -> Config:
    """The configuration in a file. Raises ConfigError with every mistake and its position."""
    with _no_secret_shown():
        return _checked(read_yaml(path), environ)


def config_from_text(
    text: str, path: str = "otel-ofu.yaml", environ: Mapping[str, str] | None = None
) -> Config:
    """The configuration in a text. Raises ConfigError with every mistake and its position."""
    with _no_secret_shown():
        return _checked(parse_yaml(text, path), environ)


def _checked(file: YamlFile, environ: Mapping[str, str] | None) -> Config:
    type_, problems = config_type(file)
    try:
        config = convert(file, type_, hook=hook)
    except ConfigError as error:
        raise ConfigError([*problems, *error.problems]) from None
    around = Surroundings(time.time(), os.environ if environ is None else environ)
    problems += [file.problem(steps, message) for steps, message in mistakes(config, around)]
    if problems:
        raise ConfigError(problems)
    return config


@contextmanager
def _no_secret_shown() -> Iterator[None]:
    """Mistakes are told without any text of the file that could be a token or a password."""
    try:
        yield
    except ConfigError as error:
        plain = _plain_keys()
        raise ConfigError([keys_only(p, plain) for p in error.problems]) from None


@cache
def _plain_keys() -> frozenset[str]:
    """The keys that take a number or one of a few words, wherever they stand."""
    plain: set[str] = set()
    other: set[str] = set()
    for struct in _structs(inspect.type_info(Config), set()):
        for field in struct.fields:
            (plain if _is_plain(field.type) else other).add(field.encode_name)
    return frozenset(plain - other)


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
