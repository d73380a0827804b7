"""Metric name and point attributes -> registry key: the inverse of `Registry.point_attributes`.

Enters: what stands on a point. Leaves: the key, the factor to the registry's unit, or the reason
why there is none. Job metrics of training frameworks are recognised by name.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from otel_ofu.catalog.registry import Metric, Registry
from otel_ofu.model import Attribute
from otel_ofu.receive.points import Attributes, Form

HW_ID = "hw.id"
# Starting value: names with their attributes; a fleet has some hundred.
_MOST_KNOWN = 8192
_NUMBERS = {"gauge": ("gauge", "sum"), "updown": ("gauge", "sum"), "counter": ("sum",)}


class JobSeries(Protocol):
    """What a metric of a training job means (`otel_ofu.mfu.names`): one of `JOB_FIELDS`."""

    @property
    def field(self) -> str: ...

    @property
    def role(self) -> str:
        """Whose it is, in a job that trains in turns; empty for the whole job's."""
        ...

    def value(self, received: float) -> float | None:
        """In the unit of the field; None where the framework marks it as unknown."""
        ...


class JobNames(Protocol):
    """Recognises what training jobs report (`otel_ofu.mfu.SeriesNames`)."""

    def recognise(self, name: str, unit: str = "") -> JobSeries | None: ...


JOB_FIELDS: Mapping[str, tuple[str, float]] = {
    "mfu": ("mfu_reported", 1.0),
    "tflops_per_gpu": ("model_flop_rate", 1e12),
    "tokens_per_s": ("tokens_per_s", 1.0),
    "tokens_per_s_per_gpu": ("tokens_per_s_per_gpu", 1.0),
    "samples_per_s": ("samples_per_s", 1.0),
    "step_s": ("step_time", 1.0),
}
"""By field: the registry key, and the factor to its unit."""


@dataclass(frozen=True, slots=True)
class UnitConversion:
    """From what a framework sends to the registry's unit."""

    series: JobSeries
    scale: float

    def __call__(self, received: float) -> float:
        """NaN for what the framework does not know."""
        value = self.series.value(received)
        return math.nan if value is None else value * self.scale


@dataclass(frozen=True, slots=True)
class KeyMatch:
    """`extras`: attributes of the point that the key does not stand for.

    `convert` is there when a training job reports it of itself.
    """

    key: str
    metric: Metric
    extras: Attributes = ()
    convert: UnitConversion | None = None


@dataclass(frozen=True, slots=True)
class _KeyCandidate:
    key: str
    metric: Metric
    fixed: frozenset[tuple[str, Attribute]]


class MetricKeys:
    """Remembers what it found, and forgets all of it when names or label values churn."""

    def __init__(self, registry: Registry, names: JobNames | None = None) -> None:
        self._registry = registry
        self._names = names
        self._known: dict[tuple[str, str, Form, Attributes], KeyMatch | str] = {}
        self._by_name: dict[str, list[_KeyCandidate]] = {}
        for key, metric in registry.metrics.items():
            fixed = frozenset(metric.attributes.items())
            self._by_name.setdefault(metric.name, []).append(_KeyCandidate(key, metric, fixed))
        for candidates in self._by_name.values():
            # The most specific first: `corrected` before any other `error.type`.
            candidates.sort(key=lambda c: (bool(c.metric.labels), -len(c.fixed)))

    def find(self, name: str, unit: str, form: Form, attributes: Attributes) -> KeyMatch | str:
        """The match, or why there is none. Leave `hw.id` out of the attributes."""
        key = (name, unit, form, attributes)
        found = self._known.get(key)
        if found is None:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            found = self._known[key] = self._search(name, unit, form, attributes)
        return found

    def _search(self, name: str, unit: str, form: Form, attributes: Attributes) -> KeyMatch | str:
        candidates = self._by_name.get(name)
        if candidates is None:
            return self._pushed(name, unit, form)
        given = dict(attributes)
        for candidate in candidates:
            match = _match(candidate, given)
            if match is not None:
                return _of_form(match, form)
        return f"no {name} has these attributes"

    def _pushed(self, name: str, unit: str, form: Form) -> KeyMatch | str:
        """Other attributes of such a point, such as a rank, do not matter here."""
        series = self._names.recognise(name, unit) if self._names else None
        if series is None:
            return "unknown metric"
        key, scale = JOB_FIELDS[series.field]
        key = f"mfu_role:{series.role}" if series.role else key
        found = KeyMatch(key, self._registry.metric(key), (), UnitConversion(series, scale))
        return _of_form(found, form)


def _match(candidate: _KeyCandidate, given: Mapping[str, Attribute]) -> KeyMatch | None:
    metric = candidate.metric
    if not candidate.fixed <= given.items():
        return None
    labels = [given.get(name) for name in metric.labels]
    prefix = metric.label_prefix
    if not all(isinstance(v, str) and v.startswith(prefix) and ":" not in v for v in labels):
        return None
    key = ":".join([candidate.key, *(str(label)[len(prefix) :] for label in labels)])
    own = {*metric.attributes, *metric.labels, *metric.points_with}
    extras = tuple((name, value) for name, value in given.items() if name not in own)
    return KeyMatch(key, metric, extras)


def _of_form(match: KeyMatch, form: Form) -> KeyMatch | str:
    if form == "delta":
        return "delta temporality is not supported; send cumulative sums"
    if match.metric.kind == "histogram" or form in _NUMBERS[match.metric.kind]:
        return match
    return f"a {match.metric.kind} was expected, not a {form}"
