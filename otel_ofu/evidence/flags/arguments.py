"""Marks in command lines: options, programs, words in a row.

Enters: a `Look` and arguments, which may hold secrets. Leaves: what may be told, or None.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from otel_ofu.evidence.flags.matching import SET, is_switched_off, told
from otel_ofu.evidence.flags.rows import Look

_NEGATIVE = re.compile(r"-\.?\d.*")
_LAUNCHERS = 2
"""A script is its interpreter's second argument: `python3 /usr/bin/nsys profile ...`."""


def seen_in(look: Look, arguments: Sequence[str]) -> str | None:
    """What may be told of the first mark in a command line; None where there is none."""
    if look.programs:
        return _program(look, arguments)
    if look.words:
        return _words(look, arguments)
    return _options(look, arguments)


def _program(look: Look, arguments: Sequence[str]) -> str | None:
    for place, argument in enumerate(arguments[:_LAUNCHERS]):
        name = argument.rpartition("/")[2]
        if name in look.programs:
            rest = arguments[place + 1 :]
            wanted = not look.followed_by or any(word in rest for word in look.followed_by)
            return name if wanted else None
    return None


def _words(look: Look, arguments: Sequence[str]) -> str | None:
    first, *others = look.words
    for place, argument in enumerate(arguments):
        if argument == first and list(arguments[place + 1 : place + len(look.words)]) == others:
            return " ".join(look.words)
    return None


def _options(look: Look, arguments: Sequence[str]) -> str | None:
    names = {_plain(name) for name in look.names}
    for value in _values(names, arguments):
        said = told(look, value)
        if said is not None and not (said == SET and is_switched_off(value)):
            return said
    return None


def _values(names: set[str], arguments: Sequence[str]) -> Iterator[str]:
    """`--a=1`, `--a 1`, `--a` and `x.a=1`, with - and _ alike."""
    for place, argument in enumerate(arguments):
        name, assigned, value = argument.partition("=")
        if _plain(name) not in names:
            continue
        if assigned:
            yield value
        elif name.startswith("-"):
            yield _next(arguments, place)


def _next(arguments: Sequence[str], place: int) -> str:
    following = arguments[place + 1] if place + 1 < len(arguments) else ""
    is_option = following.startswith("-") and not _NEGATIVE.fullmatch(following)
    return "" if is_option else following


def _plain(name: str) -> str:
    return name.lstrip("-").replace("_", "-")
