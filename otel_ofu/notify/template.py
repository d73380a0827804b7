"""Templates of messages: text with `{{name}}`, `{{#list}}…{{/list}}` and `{{^absent}}…{{/absent}}`.

Enters: a template, a view (dicts, lists, texts, numbers). Leaves: text, in which each value went
through the caller's function, so that its own words are kept apart from those of the values.
A subset of Mustache: names are looked up from the inside out, `{{labels.team}}` looks into a
mapping, `{{.}}` is the item itself, a line with nothing but a section tag leaves no line.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

Value = object
Insert = Callable[[str], str]

_TAG = re.compile(r"\{\{\s*([#^/]?)\s*([\w.]+)\s*\}\}")
_ALONE = re.compile(r"^[ \t]*(\{\{\s*[#^/]\s*[\w.]+\s*\}\})[ \t]*\n", re.MULTILINE)
# Starting value: some 100 times the template that comes with otel-ofu.
_MOST_CHARACTERS = 64 * 1024


@dataclass(frozen=True, slots=True)
class TemplateSection:
    """Shown for each item, or once for what is neither a list nor empty; `inverted`: if empty."""

    name: str
    inverted: bool
    parts: Sequence[Part]


@dataclass(frozen=True, slots=True)
class Name:
    name: str


Part = str | Name | TemplateSection


def parse_template(text: str) -> Sequence[Part]:
    """ValueError names the line of a section that does not pair, or of a tag that is none."""
    if len(text) > _MOST_CHARACTERS:
        raise ValueError(f"longer than {_MOST_CHARACTERS} characters")
    lines = _Lines(text)
    tokens = _TAG.split(_ALONE.sub(lambda m: m[1], text))
    if stray := next((t for t in tokens[::3] if "{{" in t or "}}" in t), None):
        word = stray[max(0, stray.find("{{")) :][:20].split("\n")[0]
        raise ValueError(
            f"{word!r} is not a tag; allowed: {{{{name}}}}, {{{{#name}}}}, {{{{^name}}}}"
        )
    parts, rest = _parse(tokens, "", lines)
    if rest:
        raise ValueError(f"{{{{/{rest[1]}}}}} closes nothing that is open")
    return parts


def names_of(parts: Sequence[Part]) -> Iterator[str]:
    """Every name that a template uses."""
    for part in parts:
        if isinstance(part, Name | TemplateSection):
            yield part.name
        if isinstance(part, TemplateSection):
            yield from names_of(part.parts)


def render(parts: Sequence[Part], view: Mapping[str, Value], insert: Insert) -> str:
    """What is absent leaves nothing."""
    out: list[str] = []
    _render(parts, (view,), insert, out)
    return "".join(out)


class _Lines:
    """Where a section was opened, for errors."""

    def __init__(self, text: str) -> None:
        self._text = text

    def of(self, name: str) -> int:
        found = re.search(r"\{\{\s*[#^]\s*" + re.escape(name) + r"\s*\}\}", self._text)
        return self._text.count("\n", 0, found.start()) + 1 if found else 0


def _parse(tokens: list[str], inside: str, lines: _Lines) -> tuple[list[Part], list[str]]:
    """The parts up to the end of the section `inside`, and the tokens after it."""
    parts: list[Part] = []
    while True:
        if tokens[0]:
            parts.append(tokens[0])
        if len(tokens) == 1:
            if inside:
                raise ValueError(f"line {lines.of(inside)}: {{{{#{inside}}}}} is never closed")
            return parts, []
        _, mark, name, *tokens = tokens
        if mark == "/":
            if name != inside:
                raise ValueError(f"{{{{/{name}}}}} closes {inside or 'nothing that is open'}")
            return parts, tokens
        if mark:
            inner, tokens = _parse(tokens, name, lines)
            parts.append(TemplateSection(name, mark == "^", inner))
        else:
            parts.append(Name(name))


def _render(
    parts: Sequence[Part], views: tuple[Value, ...], insert: Insert, out: list[str]
) -> None:
    for part in parts:
        if isinstance(part, str):
            out.append(part)
            continue
        value = _look_up(part.name, views)
        if isinstance(part, TemplateSection):
            for view in _views(part, value):
                _render(part.parts, (*views, view), insert, out)
        elif not _empty(value):
            out.append(insert(str(value)))


def _views(section: TemplateSection, value: Value) -> Sequence[Value]:
    if section.inverted:
        return (None,) if _empty(value) else ()
    if _empty(value):
        return ()
    return value if isinstance(value, list | tuple) else (value,)


def _look_up(name: str, views: tuple[Value, ...]) -> Value:
    if name == ".":
        return views[-1]
    first, _, deeper = name.partition(".")
    value: Value = None
    for view in reversed(views):
        if isinstance(view, dict) and first in view:
            value = view[first]
            break
    for step in deeper.split(".") if deeper else ():
        value = value.get(step) if isinstance(value, Mapping) else None
    return value


def _empty(value: Value) -> bool:
    return value is None or value is False or value in ("", [], (), {})
