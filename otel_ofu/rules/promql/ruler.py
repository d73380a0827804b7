"""Rules -> rule files for the rulers of others: Prometheus, Mimir, and their operators.

Enters: a `RuleSet`. Leaves: YAML that passes `promtool check rules`, and a line for everything that
a ruler cannot do; the same lines stand in the file as comments.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from textwrap import indent, wrap
from typing import Any, Literal, get_args

import yaml

from otel_ofu.catalog.registry import Registry
from otel_ofu.model.labels import label_name
from otel_ofu.rules.annotations import UNKNOWN, Placeholder, Template
from otel_ofu.rules.files import Rule, RuleGroup, RuleSet, SilenceCondition
from otel_ofu.rules.language.printing import duration_text, to_text
from otel_ofu.rules.language.syntax import And, Compare, Number
from otel_ofu.rules.promql.compiler import NOTHING, alert_query, silence_query
from otel_ofu.rules.promql.samples import NotInPromqlError
from otel_ofu.rules.promql.vectors import ENTITY_LABELS, CompilerSettings, duration

_FILTERS: Mapping[str, str] = {
    "plain": '{{{{ {} | printf "%.4g" }}}}',
    "ratio": '{{{{ {} | printf "%.3g" }}}}',
    "percent": "{{{{ {} | humanizePercentage }}}}",
    "hertz": "{{{{ {} | humanize }}}}Hz",
    "bytes": "{{{{ {} | humanize1024 }}}}B",
    "duration": "{{{{ {} | humanizeDuration }}}}",
    "humanize": "{{{{ {} | humanize }}}}",
    "watts": '{{{{ {} | printf "%.4g" }}}} W',
    "celsius": '{{{{ {} | printf "%.3g" }}}} °C',
}


@dataclass(frozen=True, slots=True)
class TemplateContext:
    """What a text may speak of in a ruler.

    `labels`: those that an alert has. `constants`: variables whose value is known beforehand.
    """

    labels: Collection[str]
    constants: Mapping[str, float | str]
    entity_label: str
    warn: Callable[[str], None]

    def translated(self, template: Template) -> str:
        """The text for a ruler; `warn` gets what it cannot have."""
        return "".join(
            part if isinstance(part, str) else self._placeholder(part) for part in template.parts
        )

    def _placeholder(self, part: Placeholder) -> str:
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


Target = Literal["prometheus", "mimir", "prometheusrule", "vmrule"]
TARGETS: tuple[Target, ...] = get_args(Target)

# Of a line of the written file, as of our own.
_WIDTH = 100
_HEAD = (
    "Written by otel-ofu; change the rules there. Each condition needs the labels hw_id, "
    "ofu_job_id, ofu_gpu_sku and host_name on the series, as the exposition page of otel-ofu has "
    "them; over OTLP, promote the resource attributes ofu.job.id, ofu.gpu.sku and host.name. "
    "In a ruler an alert ends at once when there is too little data to know; otel-ofu waits."
)
_KINDS: Mapping[Target, tuple[str, str]] = {
    "prometheusrule": ("monitoring.coreos.com/v1", "PrometheusRule"),
    "vmrule": ("operator.victoriametrics.com/v1beta1", "VMRule"),
}


@dataclass(frozen=True, slots=True)
class Export:
    """A rule file, and what is not in it, a line each."""

    text: str
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportOptions:
    """`step_s`, `closed_windows`: as in `CompilerSettings`; `name`: of the object or namespace."""

    step_s: float = 10.0
    name: str = "otel-ofu"
    closed_windows: bool = False


def export_rules(
    rules: RuleSet, to: Target, registry: Registry, options: ExportOptions | None = None
) -> Export:
    """The rules as a file for `to`. ValueError for an unknown target."""
    if to not in TARGETS:
        raise ValueError(f"{to!r} is not a target; allowed: {', '.join(TARGETS)}")
    options = options or ExportOptions()
    writer = _Writer(registry, options, [])
    groups = [writer.group(group) for group in rules.groups]
    warnings = tuple(dict.fromkeys(writer.warnings))
    comments = "".join(comment(line) for line in (_HEAD, *warnings))
    return Export(comments + framed(groups, to, options.name), warnings)


def framed(groups: Sequence[str], to: Target, name: str) -> str:
    """Groups, each an item of a list in YAML, as a file for `to`."""
    body = "groups:\n" + "".join(groups) if any(groups) else "groups: []\n"
    if to == "prometheus":
        return body
    if to == "mimir":
        return _yaml({"namespace": name}) + body
    version, kind = _KINDS[to]
    head = {"apiVersion": version, "kind": kind, "metadata": {"name": name}}
    return _yaml(head) + "spec:\n" + indent(body, "  ")


@dataclass(frozen=True, slots=True)
class _Writer:
    registry: Registry
    options: ExportOptions
    warnings: list[str]

    def group(self, group: RuleGroup) -> str:
        """One group as an item of a list; nothing if no rule is left."""
        rules = [text for rule in group.rules if (text := self.rule(rule))]
        if not rules:
            return ""
        head = _yaml([{"name": group.name, "interval": duration(group.interval_s)}])
        return f"{head}  rules:\n" + indent("".join(rules), "  ")

    def rule(self, rule: Rule) -> str:
        """One rule as an item of a list, its condition above it; nothing if PromQL has no way."""
        try:
            query = self._query(rule)
        except NotInPromqlError as limit:
            self._warn(rule, f"left out: {limit}")
            return ""
        self._warn_of_limits(rule, query)
        scene = self._scene(rule)
        item: dict[str, Any] = {"alert": rule.name, "expr": query}
        if rule.timing.for_s:
            item["for"] = duration(rule.timing.for_s)
        if rule.timing.keep_firing_for_s:
            item["keep_firing_for"] = duration(rule.timing.keep_firing_for_s)
        item["labels"] = self._labels(rule, scene)
        item["annotations"] = self._annotations(rule, scene)
        filled = {key: value for key, value in item.items() if value}
        return comment(_source(rule)) + _yaml([filled])

    def _query(self, rule: Rule) -> str:
        settings = CompilerSettings(self.options.step_s, rule.limits, self.options.closed_windows)
        if isinstance(rule.condition, SilenceCondition):
            return silence_query(rule.condition.after_s, rule.each, self.registry, settings)
        return alert_query(rule.condition, self.registry, settings)

    def _scene(self, rule: Rule) -> TemplateContext:
        own = ENTITY_LABELS[rule.each]
        return TemplateContext(
            labels={*own, *rule.labels},
            constants={"rule": rule.name, "count": 1.0, **_constants(rule)},
            entity_label=own[0],
            warn=lambda text: self._warn(rule, text),
        )

    def _labels(self, rule: Rule, scene: TemplateContext) -> dict[str, str]:
        shadow = {"shadow": "true"} if rule.shadow else {}
        labels = {name: scene.translated(text) for name, text in rule.labels.items()}
        return {"severity": rule.severity, **labels, **shadow}

    def _annotations(self, rule: Rule, scene: TemplateContext) -> dict[str, str]:
        texts = {label_name(n): scene.translated(text) for n, text in rule.annotations.items()}
        return {**texts, **({"runbook_url": rule.link} if rule.link else {})}

    def _warn_of_limits(self, rule: Rule, query: str) -> None:
        if rule.clear is not None:
            clear = to_text(rule.clear.root)
            self._warn(rule, f"clear is not in it ({clear}): it ends when its condition does")
        if rule.limit:
            self._warn(rule, f"limit {rule.limit} is not in it: every alert is sent")
        if rule.causes:
            self._warn(rule, "causes are not in it: a diagnosis needs otel-ofu")
        if rule.shadow:
            self._warn(rule, 'shadow is the label shadow="true": route it to nobody')
        if query == NOTHING:
            self._warn(rule, "its condition can never be true")

    def _warn(self, rule: Rule, text: str) -> None:
        self.warnings.append(f"{rule.name}: {text}")


def _constants(rule: Rule) -> Mapping[str, float | str]:
    """Variables that are the same at every alert."""
    if isinstance(rule.condition, SilenceCondition):
        return {"value": rule.condition.after_s, "threshold": rule.condition.after_s}
    root = rule.condition.root
    shown = root.operands[0] if isinstance(root, And) else root  # whose left side is the value
    if isinstance(shown, Compare) and isinstance(shown.right, Number):
        return {"threshold": shown.right.value}
    return {}


def _source(rule: Rule) -> str:
    if isinstance(rule.condition, SilenceCondition):
        return f"silent_for: {duration_text(rule.condition.after_s)}"
    return to_text(rule.condition.root)


def _yaml(value: object) -> str:
    return yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=_WIDTH)


def comment(text: str) -> str:
    """Lines of YAML comment."""
    lines = wrap(text, _WIDTH, break_long_words=False, break_on_hyphens=False)
    return "".join(f"# {line}\n" for line in lines)
