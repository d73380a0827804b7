"""Templates of messages, and the three forms of one: plain text, Markdown, HTML.

Enters: a template and a view (dicts, lists, texts, numbers). Leaves: text. A template is light
Markdown (`**bold**`, `` `code` ``, `[text](url)`, lists of `- ` or `1. `) with `{{name}}`,
`{{#list}}…{{/list}}` and `{{^absent}}…{{/absent}}`, a subset of Mustache: names are looked up from
the inside out, `{{labels.team}}` looks into a mapping, `{{.}}` is the item itself, a line with
nothing but a section tag leaves no line. What values hold is text and never markup, but for
`` `code` ``: next steps name commands so.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Literal

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


MessageFormat = Literal["text", "markdown", "html"]

# Values stand between these two, which no value may hold, until the markup around them is done.
_OPEN, _CLOSE = "\ue000", "\ue001"
_VALUE = re.compile(f"{_OPEN}(\\d+){_CLOSE}")
_BOLD = re.compile(r"\*\*(.+?)\*\*")
_LINK = re.compile(r"\[([^\]]+)\]\(([^)]+)\)")
_CODE = re.compile(r"(`[^`]+`)")
_BULLET = re.compile(r"- +(.*)")
_NUMBER = re.compile(r"\d+\. +(.*)")
_SPECIAL = re.compile(r"([\\*_\[\]<>#|~])")
_BLANK_LINES = re.compile(r"\n{3,}")


def written(
    parts: Sequence[Part], view: Mapping[str, object], form: MessageFormat
) -> tuple[str, str]:
    """The first line as plain text, and all that follows in the form asked for.

    Blank lines never stand in twos, none at the ends.
    """
    values: list[str] = []

    def insert(value: str) -> str:
        values.append(_one_line(value))
        return f"{_OPEN}{len(values) - 1}{_CLOSE}"

    text = _BLANK_LINES.sub("\n\n", render(parts, view, insert)).strip("\n")
    first, *rest = [line.strip() for line in text.split("\n")]
    escape = _ESCAPES[form]
    title = _VALUE.sub(lambda m: values[int(m[1])], _plain([first]))
    body = _VALUE.sub(lambda m: escape(values[int(m[1])]), _FORMS[form](rest))
    return title, body.strip("\n")


def _one_line(value: str) -> str:
    if value.isprintable() and "  " not in value and _OPEN not in value and _CLOSE not in value:
        return value  # as nearly all are: a fifth of the time of a message otherwise
    kept = "".join(c if c.isprintable() or c.isspace() else " " for c in value)
    return " ".join(kept.replace(_OPEN, " ").replace(_CLOSE, " ").split())


def _plain(lines: Iterable[str]) -> str:
    text = "\n".join(lines)
    return _LINK.sub(r"\1: \2", _BOLD.sub(r"\1", text))


def _markdown(lines: Iterable[str]) -> str:
    """Two spaces at the end keep lines of one paragraph apart."""
    return "\n".join(f"{line}  " if line and not _is_item(line) else line for line in lines)


def _html(lines: Iterable[str]) -> str:
    return "\n".join(_blocks(lines))


def _blocks(lines: Iterable[str]) -> Iterator[str]:
    for kind, group in groupby(lines, key=_kind):
        inner = [_inline(line) for line in group]
        if kind in ("ul", "ol"):
            items = "".join(f"<li>{line.partition(' ')[2].strip()}</li>" for line in inner)
            yield f"<{kind}>{items}</{kind}>"
        elif kind:
            yield f"<p>{'<br>'.join(inner)}</p>"


def _kind(line: str) -> str:
    if _BULLET.fullmatch(line):
        return "ul"
    return "ol" if _NUMBER.fullmatch(line) else "p" if line else ""


def _is_item(line: str) -> bool:
    return _kind(line) in ("ul", "ol")


def _inline(line: str) -> str:
    escaped = html.escape(line, quote=True)
    bold = _BOLD.sub(r"<strong>\1</strong>", escaped)
    return _LINK.sub(r'<a href="\2">\1</a>', re.sub(r"`([^`]+)`", r"<code>\1</code>", bold))


def _escaped_markdown(value: str) -> str:
    parts = _CODE.split(value)
    return "".join(p if i % 2 else _SPECIAL.sub(r"\\\1", p) for i, p in enumerate(parts))


def _escaped_html(value: str) -> str:
    parts = _CODE.split(value)
    return "".join(
        f"<code>{html.escape(p[1:-1])}</code>" if i % 2 else html.escape(p, quote=True)
        for i, p in enumerate(parts)
    )


_FORMS: Mapping[MessageFormat, Callable[[Iterable[str]], str]] = {
    "text": _plain,
    "markdown": _markdown,
    "html": _html,
}
_ESCAPES: Mapping[MessageFormat, Callable[[str], str]] = {
    "text": str,
    "markdown": _escaped_markdown,
    "html": _escaped_html,
}
