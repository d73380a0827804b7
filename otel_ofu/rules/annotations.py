"""Texts of rules with `{{ $value | percent }}` in them: parsed once, rendered at every change.

There is no code in them: a name, and filters from a fixed list. A name without a value renders
as `unknown`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial

from otel_ofu.model.labels import label_name
from otel_ofu.rules.language.names import nearest
from otel_ofu.rules.language.printing import duration_text

UNKNOWN = "unknown"
VARIABLES = ("value", "threshold", "coverage", "rule", "entity")

Value = float | str | None

_FAMILIES = tuple(
    label_name(f"k8s.{of}.{kind}.")
    for of in ("pod", "namespace", "node")
    for kind in ("label", "annotation")
)
"""Labels whose end the users of a cluster choose, as in `k8s.pod.label.app-x`.

Source: OpenTelemetry semantic conventions 1.44, docs/resource/k8s (template attributes).
"""

_BRACES = re.compile(r"\{\{(.*?)\}\}", re.DOTALL)
_NAME = re.compile(r"\$(labels\.)?([A-Za-z_][A-Za-z0-9_]*)")


class TemplateMistake(Exception):  # noqa: N818 - a mistake of the rule's author
    """What is wrong in a text, and at which of its characters (from 0)."""

    def __init__(self, offset: int, message: str) -> None:
        super().__init__(message)
        self.offset = offset
        self.message = message


@dataclass(frozen=True, slots=True)
class Placeholder:
    """`$labels.hw_id | upper`: where the value comes from, and how it is shown."""

    label: bool
    name: str
    filters: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Template:
    """A parsed text; `source` is how it was written."""

    source: str
    parts: tuple[str | Placeholder, ...]

    def render(self, values: Mapping[str, Value], labels: Mapping[str, str]) -> str:
        return "".join(
            part if isinstance(part, str) else _shown(part, values, labels) for part in self.parts
        )

    @property
    def placeholders(self) -> tuple[Placeholder, ...]:
        return tuple(part for part in self.parts if isinstance(part, Placeholder))


def parse_template(text: str, labels: Collection[str]) -> Template:
    """The template of a text that may speak of `labels`. Raises TemplateMistake."""
    parts: list[str | Placeholder] = []
    end = 0
    for found in _BRACES.finditer(text):
        parts += _plain(text, end, found.start())
        parts.append(_placeholder(found, labels))
        end = found.end()
    parts += _plain(text, end, len(text))
    return Template(text, tuple(parts))


def _plain(text: str, start: int, end: int) -> list[str]:
    part = text[start:end]
    for braces in ("{{", "}}"):
        if braces in part:
            raise TemplateMistake(start + part.index(braces), f"{braces!r} stands alone")
    return [part] if part else []


def _placeholder(found: re.Match[str], labels: Collection[str]) -> Placeholder:
    offset = found.start(1)
    names: list[str] = []
    for part in found[1].split("|"):
        at = offset + len(part) - len(part.lstrip())
        if names:
            _check_filter(part.strip(), at)
        else:
            _check_name(part.strip(), at, labels)
        names.append(part.strip())
        offset += len(part) + 1
    name = names[0].removeprefix("$")
    return Placeholder(name.startswith("labels."), name.removeprefix("labels."), tuple(names[1:]))


def _check_filter(filter_name: str, at: int) -> None:
    if filter_name not in FILTERS:
        hint = nearest(filter_name, FILTERS) or f"; there are {', '.join(FILTERS)}"
        raise TemplateMistake(at, f"unknown filter {filter_name!r}{hint}")


def _check_name(text: str, at: int, labels: Collection[str]) -> None:
    name = _NAME.fullmatch(text)
    if not name:
        raise TemplateMistake(at, "expected $value, $labels.name or the like between {{ and }}")
    if name[1] and name[2] not in labels and not name[2].startswith(_FAMILIES):
        hint = nearest(name[2], labels)
        raise TemplateMistake(at, f"$labels.{name[2]} refers to nothing{hint}")
    if not name[1] and name[2] not in VARIABLES:
        known = ", ".join(f"${variable}" for variable in VARIABLES)
        raise TemplateMistake(at, f"${name[2]} refers to nothing; there are $labels.…, {known}")


def _shown(part: Placeholder, values: Mapping[str, Value], labels: Mapping[str, str]) -> str:
    value: Value = labels.get(part.name) if part.label else values.get(part.name)
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return UNKNOWN
    for filter_name in part.filters or ("plain",):
        value = FILTERS[filter_name](value) if isinstance(value, float | int) else str(value)
    return str(value)


def _scaled(value: float, base: float, prefixes: tuple[str, ...], unit: str) -> str:
    power = 0
    while abs(value) >= base and power < len(prefixes) - 1:
        value /= base
        power += 1
    return f"{value:.4g} {prefixes[power]}{unit}".rstrip()


_DECIMAL = ("", "k", "M", "G", "T", "P", "E")
_BINARY = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")


def duration_words(value: float) -> str:
    """Seconds as people write them: `2h16m`, `45s`."""
    if not math.isfinite(value):
        return str(value)
    if value < 0:
        return f"-{duration_words(-value)}"
    if value < 60:  # noqa: PLR2004 - seconds of a minute
        return f"{value:.3g}s"
    minutes, seconds = divmod(round(value), 60)
    hours, minutes = divmod(minutes, 60)
    return "".join(
        duration_text(n * u) for n, u in ((hours, 3600), (minutes, 60), (seconds, 1)) if n
    )


FILTERS: Mapping[str, Callable[[float], str]] = {
    "plain": "{:.4g}".format,
    "ratio": "{:.3g}".format,
    "percent": lambda value: f"{value * 100:.3g}%",
    "hertz": partial(_scaled, base=1000, prefixes=_DECIMAL, unit="Hz"),
    "bytes": partial(_scaled, base=1024, prefixes=_BINARY, unit="B"),
    "duration": duration_words,
    "humanize": partial(_scaled, base=1000, prefixes=_DECIMAL, unit=""),
    "watts": "{:.4g} W".format,
    "celsius": "{:.3g} °C".format,
}
