"""What a name in a condition stands for: a metric of the registry, with its unit and entity.

A name that stands for nothing raises `NameMistake`, with the nearest names that do.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches

from otel_ofu.catalog.registry import Metric, Registry
from otel_ofu.model import EntityKind
from otel_ofu.rules.language.parsing import shown
from otel_ofu.rules.language.syntax import Scope
from otel_ofu.rules.language.units import Unit, parse_unit


class NameMistake(Exception):  # noqa: N818 - a mistake of the rule's author
    """Why a name is invalid where it stands."""


@dataclass(frozen=True, slots=True)
class MetricReference:
    """A metric as a condition names it."""

    key: str
    scope: Scope
    unit: Unit
    counter: bool


def resolve(name: str, each: EntityKind, registry: Registry) -> MetricReference:
    """The metric behind `ofu`, `xid:79` or `job.mfu` in a condition on `each`."""
    scope, key = _split(name, each)
    metric = _metric(key, registry)
    _check_labels(key, metric)
    _check_values(key, metric, registry)
    _check_entity(key, metric, scope, each)
    return MetricReference(key, scope, parse_unit(metric.unit), metric.kind == "counter")


def nearest(name: str, known: Iterable[str]) -> str:
    """`; did you mean a or b?`, or nothing when no known name is near."""
    close = get_close_matches(name, list(known), n=3, cutoff=0.6)
    return f"; did you mean {' or '.join(close)}?" if close else ""


def _split(name: str, each: EntityKind) -> tuple[Scope, str]:
    head, dot, rest = name.partition(".")
    if not dot or ":" in head:
        return Scope.OWN, name
    if head not in {"job", "node"}:
        return Scope.OWN, name
    if each != "gpu":
        raise NameMistake(f"`{head}.` stands in gpu rules only; in a {each} rule write {rest}")
    return Scope(head), rest


def _metric(key: str, registry: Registry) -> Metric:
    metric = registry.metrics.get(key.partition(":")[0])
    if metric is not None:
        return metric
    same = [known for known, other in registry.metrics.items() if other.name == key]
    if same:
        raise NameMistake(f"{key} is an OpenTelemetry name; in rules write {' or '.join(same)}")
    raise NameMistake(f"unknown metric {shown(key)}{nearest(key, registry.metrics)}")


def _check_labels(key: str, metric: Metric) -> None:
    base, *labels = key.split(":")
    if len(labels) == len(metric.labels) and all(labels):
        return
    if metric.labels:
        shape = ":".join([base, *(f"<{name}>" for name in metric.labels)])
        raise NameMistake(f"{base} needs its label: write {shape}")
    raise NameMistake(f"{base} has no labels: write {base}")


def _check_values(key: str, metric: Metric, registry: Registry) -> None:
    """Refuses a label that the metric can never have."""
    base, *labels = key.split(":")
    for name, value in zip(metric.labels, labels, strict=True):
        attribute = registry.attributes.get(name)
        known = attribute.values if attribute else []
        if known and value not in known:
            hint = nearest(value, known) or f"; one of: {', '.join(known)}"
            raise NameMistake(f"{base}: unknown {name} {shown(value)!r}{hint}")
        if metric.label_pattern and not re.fullmatch(metric.label_pattern, value):
            raise NameMistake(f"{base}: {shown(value)!r} is not a number, as in {base}:79")


def _check_entity(key: str, metric: Metric, scope: Scope, each: EntityKind) -> None:
    wanted = scope.value or each
    if metric.entity == wanted:
        return
    if metric.entity == "agent":
        raise NameMistake(f"{key} is about the agent itself, not about a {wanted}")
    raise NameMistake(
        f"{key} is a metric of a {metric.entity}: write {_instead(key, metric, each)}"
    )


def _instead(key: str, metric: Metric, each: EntityKind) -> str:
    if metric.entity == "gpu":
        return key if each == "gpu" else f"gpus.avg({key})"
    return f"{metric.entity}.{key}" if each == "gpu" else f"a rule with `each: {metric.entity}`"
