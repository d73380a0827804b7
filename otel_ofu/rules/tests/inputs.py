"""Input series of promtool's format -> entities and samples.

`ofu{hw_id="GPU-1", ofu_job_id="7"}` and `ofu_gpu_utilization_ratio{…}` are the same series; labels
become attributes of the entity that `hw_id`, `ofu_job_id` or `host_name` names.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

from otel_ofu.catalog.prometheus_names import metric_name
from otel_ofu.catalog.registry import Metric, Registry
from otel_ofu.model import Attribute, Entity, EntityKind
from otel_ofu.model.labels import label_name
from otel_ofu.rules.files.cases import MAX_SAMPLES
from otel_ofu.rules.language.names import nearest

IDS: Mapping[EntityKind, str] = {"gpu": "hw_id", "job": "ofu_job_id", "node": "host_name"}

_SERIES = re.compile(r"\s*([a-zA-Z_:][a-zA-Z0-9_:]*)\s*(?:\{(.*)\})?\s*", re.DOTALL)
_LABEL = re.compile(r'\s*([a-zA-Z_][a-zA-Z0-9_]*)\s*=\s*"((?:[^"\\]|\\.)*)"\s*(?:,|$)')
_NUMBER = r"[0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?"
_VALUES = re.compile(
    rf"(?:(?P<missing>_|stale)|(?P<first>-?{_NUMBER})(?P<step>[+-]{_NUMBER})?)(?:x(?P<times>[0-9]+))?"
)


class SeriesReader:
    """Collects series; ValueError says what is wrong with one."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._names = _prometheus_names(registry)
        self._attributes = {label_name(name): name for name in registry.attributes}
        self.entities: dict[str, Entity] = {}
        self.series: dict[tuple[str, str], list[float]] = {}

    def add(self, series: str, values: str) -> None:
        found = _SERIES.fullmatch(series)
        if not found:
            raise ValueError(f'{series!r} is no series: write ofu{{hw_id="GPU-1"}}')
        labels = _labels(found[2] or "")
        key, metric = self._metric(found[1], labels)
        name = self._entity(metric, labels)
        self.series[name, key] = promtool_samples(values)

    def _metric(self, name: str, labels: Mapping[str, str]) -> tuple[str, Metric]:
        known = self._registry.metrics.get(name.partition(":")[0])
        if known is not None:
            return name, known
        for key in self._names.get(name, ()):
            metric = self._registry.metrics[key]
            fixed = {label_name(k): v for k, v in metric.attributes.items()}
            parts = [labels.get(label_name(k), "") for k in metric.labels]
            if fixed.items() <= labels.items() and all(parts):
                values = [part.removeprefix(metric.label_prefix) for part in parts]
                return ":".join([key, *values]), metric
        hint = nearest(name, [*self._registry.metrics, *self._names])
        raise ValueError(f"{name} with these labels is no metric{hint}")

    def _entity(self, metric: Metric, labels: Mapping[str, str]) -> str:
        if metric.entity == "agent":
            raise ValueError(f"{metric.name} is about the agent itself")
        entity_id = labels.get(IDS[metric.entity])
        if not entity_id:
            raise ValueError(f"a series of a {metric.entity} needs the label {IDS[metric.entity]}")
        attributes: dict[str, Attribute] = {
            self._attributes.get(name, name): value for name, value in labels.items()
        }
        name = f"{metric.entity} {entity_id}"
        before = self.entities.get(name)
        together = {**(before.attributes if before else {}), **attributes}
        self.entities[name] = Entity(metric.entity, entity_id, together)
        return name


def promtool_samples(text: str) -> list[float]:
    """`1+2x3` is 1 3 5 7, `4x2` is 4 4 4, `_x2` and `stale` are missing. Raises ValueError."""
    values: list[float] = []
    for token in text.split():
        found = _VALUES.fullmatch(token)
        if not found:
            raise ValueError(f"{token!r} is no samples: write 0.1x90, _x6 or 0.5+0.01x30")
        times = int(found["times"] or 0)
        if len(values) + times >= MAX_SAMPLES:
            raise ValueError(f"more than {MAX_SAMPLES:,} samples, the most allowed")
        if found["missing"]:
            values += [math.nan] * max(1, times)
        else:
            first, step = float(found["first"]), float(found["step"] or 0)
            values += [first + step * i for i in range(times + 1)]
    return values


def _labels(text: str) -> dict[str, str]:
    labels: dict[str, str] = {}
    at = 0
    while at < len(text.rstrip()):
        found = _LABEL.match(text, at)
        if not found:
            raise ValueError(f'{text!r} is no list of labels: write name="value"')
        labels[found[1]] = found[2].replace('\\"', '"').replace("\\\\", "\\")
        at = found.end()
    return labels


def _prometheus_names(registry: Registry) -> dict[str, list[str]]:
    names: dict[str, list[str]] = {}
    for key, metric in registry.metrics.items():
        name = metric_name(metric.name, metric.unit, metric.kind).metric
        names.setdefault(name, []).append(key)
    return names
