"""Lines of a file as they may be shown: without what could be a secret.

Enters: a problem with its line. Leaves: the same problem, with *** in the line where text stood.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import pairwise

from otel_ofu.model.errors import Problem

MASK = "***"

_USER = re.compile(r"(?<=://)[^\s\"']+(?=@)")
_SEGMENT = re.compile(
    r"""(?P<mark>[\s{}\[\],]+|-(?=\s|$)|:(?=\s|$))
    |(?P<key>[\w./-]{1,64})(?=\s*:(?:\s|$))
    |(?P<value>"(?:[^"\\]|\\.)*"?|'[^']*'?|\#.*|(?:(?!\s\#)[^{}\[\],])+)""",
    re.VERBOSE,
)
PLAIN = re.compile(r"[\w.%-]{1,24}")
PATH = re.compile(r"(?:~|\.{1,2})?/[\w./ -]{0,200}")
"""A token in its place rarely begins with a slash."""
ADDRESS = re.compile(r"[\w.-]{0,64}:\d{1,8}|\[[\da-fA-F:.]{2,45}\]:\d{1,8}")
_HARMLESS = re.compile(r"\d{1,3}|true|false")
_KEY = re.compile(
    r"""(?<=key )(?P<quote>['"])(?P<key>(?:\\.|(?!(?P=quote)).)*)(?P=quote)""", re.DOTALL
)
_LEADING_NAME = re.compile(r"[\w.-]*")
_NAME = re.compile(
    r"(?:(?:[A-Z]?[a-z]{1,24}(?:[A-Z][a-z]{1,24}){0,2}|[A-Z]{1,24})\d{0,3}|[A-Za-z\d]{1,4})"
)
"""A part of a key as people write them; longer runs of letters and digits may be a token."""
_INSTANCE = re.compile(r"/(?:[a-z]{1,24}|\d{1,3})")
"""As in `otlp/2`. Source: OpenTelemetry Collector, names of components."""

Segment = tuple[int, str, bool]
"""Where it begins in the line, as it is shown, whether that is as it was written."""


def without_user(problem: Problem) -> Problem:
    """The problem, its line without the user and the password of a URL."""
    line = problem.source_line
    cuts = [(found.start(), found.end()) for found in _USER.finditer(line)]
    return _shown(problem, list(_around(line, cuts))) if cuts else problem


def keys_only(problem: Problem, forms: Mapping[str, re.Pattern[str]]) -> Problem:
    """The problem, its line without values, but for a value of the form that its key has.

    Of a key that is not a name (`authorization:TOKEN`, a space forgotten) the name alone is shown,
    and of one that could be a token nothing.
    """
    message = _KEY.sub(_shown_key, problem.message)
    problem = replace(problem, message=message)
    return _shown(problem, list(_segments(problem.source_line, forms)))


def _shown_key(found: re.Match[str]) -> str:
    key = found["key"]
    if _is_name(key):
        return found[0]
    name = _LEADING_NAME.match(key)
    return f"'{name[0] if name and _is_name(name[0]) else ''}{MASK}'"


def _is_name(key: str) -> bool:
    """Whether a key may be shown: words, numbered at most, and no token."""
    base, slash, _ = key.partition("/")
    return (not slash or bool(_INSTANCE.fullmatch(key, len(base)))) and all(
        not part or _NAME.fullmatch(part) for part in re.split(r"[._-]", base)
    )


def _around(line: str, cuts: list[tuple[int, int]]) -> Iterator[Segment]:
    edges = [(0, 0), *cuts, (len(line), len(line))]
    for (_, end), (begin, after) in pairwise(edges):
        yield end, line[end:begin], True
        if after > begin:
            yield begin, MASK, False


def _segments(line: str, forms: Mapping[str, re.Pattern[str]]) -> Iterator[Segment]:
    key = ""
    for found in _SEGMENT.finditer(line):
        text = found[0]
        key = text if found["key"] else key
        written = not _may_be_secret(found, forms.get(key, _HARMLESS))
        yield found.start(), text if written else MASK, written
        if found["value"] or "," in text:
            key = ""  # one value each: what stands after it is no value of that key


def _may_be_secret(found: re.Match[str], form: re.Pattern[str]) -> bool:
    if found["key"]:
        return not _is_name(found["key"])
    value = found["value"] or ""
    if form in (PATH, ADDRESS):  # mostly quoted, and a port is a number
        return bool(value) and not form.fullmatch(value.strip("\"' "))
    return bool(value) and not form.fullmatch(value)


def _shown(problem: Problem, segments: list[Segment]) -> Problem:
    """A caret within what is hidden goes to its begin."""
    at = (problem.caret or problem.column) - 1
    caret, width = 0, 0
    for begin, text, written in segments:
        if begin <= at:
            caret = width + (min(at - begin, len(text)) if written else 0)
        width += len(text)
    line = "".join(text for _, text, _ in segments)
    return replace(problem, source_line=line, caret=caret + 1)
