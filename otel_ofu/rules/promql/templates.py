"""Texts of rules -> templates of Prometheus and vmalert.

What a ruler has no value for is written as `unknown`, as our own texts show what is missing, and
told to the caller.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from otel_ofu.rules.annotations import UNKNOWN, Placeholder, Template

_FILTERS: Mapping[str, str] = {
    "plain": '{{{{ {} | printf "%.4g" }}}}',
    "percent": "{{{{ {} | humanizePercentage }}}}",
    "hertz": "{{{{ {} | humanize }}}}Hz",
    "bytes": "{{{{ {} | humanize1024 }}}}B",
    "duration": "{{{{ {} | humanizeDuration }}}}",
    "humanize": "{{{{ {} | humanize }}}}",
    "watts": '{{{{ {} | printf "%.4g" }}}} W',
    "celsius": '{{{{ {} | printf "%.3g" }}}} °C',
}


@dataclass(frozen=True, slots=True)
class Scene:
    """What a text may speak of in a ruler.

    `labels`: those that an alert has. `constants`: variables whose value is known beforehand.
    """

    labels: Collection[str]
    constants: Mapping[str, float | str]
    entity_label: str
    warn: Callable[[str], None]

    def translated(self, template: Template) -> str:
        """The text for a ruler; `warn` is told of what it cannot have."""
        return "".join(
            part if isinstance(part, str) else self._place(part) for part in template.parts
        )

    def _place(self, part: Placeholder) -> str:
        if part.label:
            return self._label(part.name)
        if part.name in self.constants:
            values = {part.name: self.constants[part.name]}
            return Template("", (part,)).render(values, {})
        if part.name == "value":
            return _FILTERS[part.filters[0] if part.filters else "plain"].format("$value")
        if part.name == "entity":
            return self._label(self.entity_label)
        self.warn(f"${part.name} has no value in a ruler; it is shown as {UNKNOWN}")
        return UNKNOWN

    def _label(self, name: str) -> str:
        if name not in self.labels:
            self.warn(f"$labels.{name} is not on the alert of a ruler; it is shown as {UNKNOWN}")
            return UNKNOWN
        return f"{{{{ $labels.{name} }}}}"
