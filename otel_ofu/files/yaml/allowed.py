"""What a type allows at a position: the values of a choice, the keys of a block."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Any

from msgspec import inspect

from otel_ofu.files.yaml.parse import Step, Steps

MAX_LISTED = 24


def choices(type_: type[Any], steps: Steps) -> str:
    """`; one of: a, b` for the choice at `steps`, or nothing."""
    found = _at(inspect.type_info(type_), steps)
    values = [v for t in found if isinstance(t, inspect.LiteralType) for v in t.values]
    return f"; one of: {', '.join(str(v) or '(empty)' for v in values)}" if values else ""


def key_choices(type_: type[Any], steps: Steps) -> str:
    """`; one of: a, b` for the keys of the mapping at `steps`, or nothing when all are allowed."""
    found = [t for t in _at(inspect.type_info(type_), steps) if isinstance(t, inspect.DictType)]
    keys_ = [key for t in found for key in _flat(t.key_type)]
    values = [v for t in keys_ if isinstance(t, inspect.LiteralType) for v in t.values]
    return f"; one of: {', '.join(str(v) for v in values)}" if values else ""


def keys(type_: type[Any], steps: Steps, wrong: str) -> str:
    """`; did you mean x?` or `; allowed: a, b` for the block at `steps`."""
    found = _at(inspect.type_info(type_), steps)
    names = [f.encode_name for t in found if isinstance(t, inspect.StructType) for f in t.fields]
    near = get_close_matches(wrong, names, n=1)
    if near:
        return f"; did you mean {near[0]}?"
    return f"; allowed: {', '.join(names[:MAX_LISTED])}" if names else ""


def instead_of(type_: type[Any], steps: Steps, wrong: str) -> str:
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
