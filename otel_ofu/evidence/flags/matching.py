"""The test of a value or of a command line, and what may be reported of it.

Enters: a `FlagMatcher`, and a value or arguments that may hold secrets. Leaves: text that stands in
flags.yaml, a number, or "set"; None when the test does not hold. The work is linear in the length
of the value.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence

from otel_ofu.evidence.flags.catalogue import FlagMatcher, Word

SET = "set"
ANOTHER = "set to another value"
LONGEST_NUMBER = 24
"""Of characters: 15 digits on both sides of the point, no more. Starting value."""
_NEGATIVE = re.compile(r"-\.?\d.*")
_LAUNCHERS = 2
"""A script is its interpreter's second argument: `python3 /usr/bin/nsys profile ...`."""

_FALSE = frozenset({"0", "false", "no", "off", "none"})
_NUMBER = re.compile(r"[+-]?(?:\d{1,15}(?:\.\d{0,15})?|\.\d{1,15})(?:[eE][+-]?\d{1,3})?")
_SEPARATOR = re.compile(r"[,;\s]")


def reported_value(matcher: FlagMatcher, value: str) -> str | None:
    """What may be reported of a value that passes the test; None when it does not."""
    if matcher.option:
        part = _option(matcher.option, value)
        return None if part is None else _judged(matcher, part)
    return _judged(matcher, value)


def is_switched_off(value: str) -> bool:
    """Whether an option is switched off: `--profile=false`."""
    return value.strip().lower() in _FALSE


def _judged(matcher: FlagMatcher, value: str) -> str | None:
    text = value.strip().lower()
    if matcher.set_:
        return SET
    if matcher.not_equals:
        return ANOTHER if _first(matcher.not_equals, text.__eq__) is None else None
    if matcher.has:
        return _listed(matcher.has, text)
    if matcher.below is not None or matcher.above is not None:
        return _number(matcher, text)
    return _worded(matcher, text)


def _worded(matcher: FlagMatcher, text: str) -> str | None:
    if matcher.equals:
        return _first(matcher.equals, text.__eq__)
    if matcher.starts_with:
        return _first(matcher.starts_with, text.startswith)
    return _first(matcher.contains, text.__contains__)


def _first(words: Iterable[Word], holds: Callable[[str], bool]) -> str | None:
    """The first word for which it holds, as flags.yaml writes it."""
    return next((str(word) for word in words if holds(str(word).lower())), None)


def _listed(words: Iterable[Word], text: str) -> str | None:
    """Of a list `a,b`; one that begins with ^ names what is left out, and has none."""
    parts = frozenset() if text.startswith("^") else frozenset(_SEPARATOR.split(text))
    found = [str(word) for word in words if str(word).lower() in parts]
    return ",".join(found) if found else None


def _number(matcher: FlagMatcher, text: str) -> str | None:
    if len(text) > LONGEST_NUMBER or not _NUMBER.fullmatch(text):
        return None
    number = float(text)
    below = matcher.below is None or number < matcher.below
    above = matcher.above is None or number > matcher.above
    return f"{number:g}" if below and above else None


def _option(name: str, value: str) -> str | None:
    """The value of `name:5` or `name=5` in a list of them."""
    for part in _SEPARATOR.split(value):
        key, mark, rest = part.partition(":" if ":" in part else "=")
        if mark and key.strip().lower() == name.lower():
            return rest
    return None


def seen_in(matcher: FlagMatcher, arguments: Sequence[str]) -> str | None:
    """What may be reported of the first mark in a command line; None where there is none."""
    if matcher.programs:
        return _program(matcher, arguments)
    if matcher.words:
        return _phrase(matcher, arguments)
    return _options(matcher, arguments)


def _program(matcher: FlagMatcher, arguments: Sequence[str]) -> str | None:
    for index, argument in enumerate(arguments[:_LAUNCHERS]):
        name = argument.rpartition("/")[2]
        if name in matcher.programs:
            rest = arguments[index + 1 :]
            wanted = not matcher.followed_by or any(word in rest for word in matcher.followed_by)
            return name if wanted else None
    return None


def _phrase(matcher: FlagMatcher, arguments: Sequence[str]) -> str | None:
    first, *others = matcher.words
    for index, argument in enumerate(arguments):
        if argument == first and list(arguments[index + 1 : index + len(matcher.words)]) == others:
            return " ".join(matcher.words)
    return None


def _options(matcher: FlagMatcher, arguments: Sequence[str]) -> str | None:
    names = {_plain(name) for name in matcher.names}
    for value in _values(names, arguments):
        shown = reported_value(matcher, value)
        if shown is not None and not (shown == SET and is_switched_off(value)):
            return shown
    return None


def _values(names: set[str], arguments: Sequence[str]) -> Iterator[str]:
    """`--a=1`, `--a 1`, `--a` and `x.a=1`, with - and _ alike."""
    for index, argument in enumerate(arguments):
        name, assigned, value = argument.partition("=")
        if _plain(name) not in names:
            continue
        if assigned:
            yield value
        elif name.startswith("-"):
            yield _next(arguments, index)


def _next(arguments: Sequence[str], index: int) -> str:
    following = arguments[index + 1] if index + 1 < len(arguments) else ""
    is_option = following.startswith("-") and not _NEGATIVE.fullmatch(following)
    return "" if is_option else following


def _plain(name: str) -> str:
    return name.lstrip("-").replace("_", "-")
