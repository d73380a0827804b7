"""One template, three forms: light Markdown to plain text, Markdown and HTML.

Enters: a template in light Markdown (`**bold**`, `` `code` ``, `[text](url)`, lists of `- ` or
`1. `), and a view. Leaves: the message in one form. What values hold is text and never markup, but
for `` `code` ``: next steps name commands so.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Literal

from otel_ofu.notify.template import Part, render

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
