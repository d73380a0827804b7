"""Mistakes inside mappings with free keys, which msgspec does not place."""

from __future__ import annotations

from typing import Literal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_ofu.files.yaml import convert, parse_yaml
from otel_ofu.model.errors import ConfigError


class Leaf(msgspec.Struct, forbid_unknown_fields=True):
    key: str
    scale: float = 1.0


class Tree(msgspec.Struct, forbid_unknown_fields=True):
    leaves: dict[str, Leaf] = {}
    deep: list[dict[str, dict[str, Leaf]]] = []
    named: dict[Literal["a", "b"], int] = {}


def problems(text: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        convert(parse_yaml(text, "x.yaml"), Tree)
    return [str(problem) for problem in caught.value.problems]


def test_each_mistake_is_told_once_at_its_line() -> None:
    text = (
        "leaves:\n"
        "  good: {key: a}\n"
        "  a.b[0]: {key: 1, scale: x}\n"
        "  odd: {key: a, zz: 1}\n"
        "  flat: 5\n"
        "  last: {key: 2}\n"
    )
    assert problems(text) == [
        "x.yaml:3:17: expected text, got a whole number",
        "x.yaml:3:27: expected a number, got text",
        "x.yaml:4:17: unknown key 'zz'; allowed: key, scale",
        "x.yaml:5:9: expected a mapping, got a whole number",
        "x.yaml:6:15: expected text, got a whole number",
    ]


def test_mappings_in_lists_in_mappings_are_followed() -> None:
    text = (
        "deep:\n  - {p: {q: {key: a}}}\n  - p: {}\n    r:\n      s: {key: a}\n      t: {key: 5}\n"
    )
    assert problems(text) == ["x.yaml:6:16: expected text, got a whole number"]


def test_a_key_that_is_none_of_the_allowed_is_told_with_those() -> None:
    assert problems("named: {a: 1, c: 2, d: 3}\n") == [
        "x.yaml:1:15: unknown key 'c'; one of: a, b",
        "x.yaml:1:21: unknown key 'd'; one of: a, b",
    ]


@given(st.dictionaries(st.text("abc.[]`", min_size=1), st.booleans(), min_size=1, max_size=20))
def test_as_many_mistakes_are_told_as_there_are(good: dict[str, bool]) -> None:
    lines = [f"  {key!r}: {{key: {'x' if ok else 5}}}\n" for key, ok in good.items()]
    bad = [number for number, ok in enumerate(good.values(), start=2) if not ok]
    found: list[int] = []
    try:
        convert(parse_yaml("leaves:\n" + "".join(lines), "x.yaml"), Tree)
    except ConfigError as error:
        found = [problem.line for problem in error.problems]
    assert found == bad
