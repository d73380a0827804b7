"""The test of a value, and what may be told of it.

Enters: a `Look` and a value that may be secret. Leaves: text that stands in flags.yaml, a number,
or "set"; None when the test does not hold. The work is linear in the length of the value.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from otel_ofu.evidence.flags.rows import Look, Word

SET = "set"
ANOTHER = "set to another value"
LONGEST_NUMBER = 24

_FALSE = frozenset({"0", "false", "no", "off", "none"})
_NUMBER = re.compile(r"[+-]?(?:\d{1,15}(?:\.\d{0,15})?|\.\d{1,15})(?:[eE][+-]?\d{1,3})?")
_SEPARATOR = re.compile(r"[,;\s]")


def told(look: Look, value: str) -> str | None:
    """What may be said of a value that passes the test; None when it does not."""
    if look.option:
        part = _option(look.option, value)
        return None if part is None else _judged(look, part)
    return _judged(look, value)


def is_switched_off(value: str) -> bool:
    """Whether an option says no: `--profile=false`."""
    return value.strip().lower() in _FALSE


def _judged(look: Look, value: str) -> str | None:
    text = value.strip().lower()
    if look.set_:
        return SET
    if look.not_equals:
        return ANOTHER if _first(look.not_equals, text.__eq__) is None else None
    if look.has:
        return _listed(look.has, text)
    if look.below is not None or look.above is not None:
        return _number(look, text)
    return _worded(look, text)


def _worded(look: Look, text: str) -> str | None:
    if look.equals:
        return _first(look.equals, text.__eq__)
    if look.starts_with:
        return _first(look.starts_with, text.startswith)
    return _first(look.contains, text.__contains__)


def _first(words: Iterable[Word], holds: Callable[[str], bool]) -> str | None:
    """The first word for which it holds, as flags.yaml writes it."""
    return next((str(word) for word in words if holds(str(word).lower())), None)


def _listed(words: Iterable[Word], text: str) -> str | None:
    """Of a list `a,b`; one that begins with ^ names what is left out, and has none."""
    parts = frozenset() if text.startswith("^") else frozenset(_SEPARATOR.split(text))
    found = [str(word) for word in words if str(word).lower() in parts]
    return ",".join(found) if found else None


def _number(look: Look, text: str) -> str | None:
    if len(text) > LONGEST_NUMBER or not _NUMBER.fullmatch(text):
        return None
    number = float(text)
    below = look.below is None or number < look.below
    above = look.above is None or number > look.above
    return f"{number:g}" if below and above else None


def _option(name: str, value: str) -> str | None:
    """The value of `name:5` or `name=5` in a list of them."""
    for part in _SEPARATOR.split(value):
        key, mark, rest = part.partition(":" if ":" in part else "=")
        if mark and key.strip().lower() == name.lower():
            return rest
    return None
