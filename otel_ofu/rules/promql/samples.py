"""Metrics of entities in PromQL: the last value, and functions over a window.

Every result is brought to the labels of its entity, so that metrics with different labels of their
own (a scrape's `instance`, a point's `hw_type`) meet without further ado. Windows are whole steps,
counted as the store counts them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from otel_ofu.catalog.prometheus_names import metric_name
from otel_ofu.catalog.registry import Registry
from otel_ofu.model import EntityKind
from otel_ofu.model.errors import OtelOfuError
from otel_ofu.model.labels import label_name
from otel_ofu.rules.functions import WINDOW_FUNCTIONS
from otel_ofu.rules.language.syntax import Latest, Over, owner
from otel_ofu.rules.numpy.samples import fresh_s
from otel_ofu.rules.promql.vectors import (
    ENTITY_LABELS,
    CompilerSettings,
    Labels,
    Vector,
    aggregate,
    any_of,
    duration,
    infix,
    number,
    quoted,
)
from otel_ofu.store.history import COUNTER_GAP_S
from otel_ofu.store.retention import Steps

# Metrics of which every GPU has at least one, to know which GPUs there are.
PRESENT = ("ofu", "ofu_gap", "gpu_util", "power")
PRESENT_S = 3_600.0
# A window of 30 samples in which 15 are there is half full, whatever the rounding.
_SLACK = 1e-6


class NotInPromqlError(OtelOfuError):
    """A condition that PromQL cannot express, and why."""


@dataclass(frozen=True, slots=True)
class MetricVectors:
    """Metrics of the entities of one kind; `required` are labels that must not be empty."""

    registry: Registry
    settings: CompilerSettings
    each: EntityKind
    required: Labels = ()

    def latest(self, node: Latest) -> Vector:
        """The last value, while it is fresh."""
        kind = owner(self.each, node.scope)
        # A value that is exactly as old as it may be is still fresh.
        reach_s = fresh_s(self.settings.step_s) + self.settings.step_s
        selected = self._selector(node.metric, kind)
        return _entity(kind, f"last_over_time({selected}[{self._range(reach_s)}])")

    def over(self, node: Over) -> Vector | None:
        """A function over a window with enough samples; None where it can have no value."""
        function, kind = WINDOW_FUNCTIONS[node.function], owner(self.each, node.scope)
        known = []
        if self._rows(node):
            window = self._samples_of(node, kind)
            value = function.promql.format_map(self._fields(node, kind, window))
            needed = self._enough(node, window) if function.needs_coverage else ""
            known = [_entity(kind, value + needed)]
        if function.empty is not None:
            known.append(self._without(kind, function.empty))
        return any_of(known) if known else None

    def coverage(self, node: Over) -> Vector:
        """The share of a window's samples that is there."""
        return infix("/", self._count(node), self._expected(node))

    def present(self) -> Vector:
        """1 for every entity that there is."""
        text = f"last_over_time({self._anything()}[{self._range(PRESENT_S)}])"
        return aggregate("group", ENTITY_LABELS[self.each], text)

    def silent(self, after_s: float) -> Vector:
        """1 for every entity that there is and that was not seen for so long."""
        seen = f"last_over_time({self._anything()}[{self._range(after_s)}])"
        late = aggregate("group", ENTITY_LABELS[self.each], seen)
        return Vector(f"{self.present().text} unless {late.text}", late.labels, atom=False)

    def seen(self) -> Vector:
        """When each entity that there is was last seen, in Unix seconds."""
        labels, times = ENTITY_LABELS[self.each], f"timestamp({self._anything()})"
        # A sample that is out of the server's lookback was the last one at some full minute.
        earlier = f"max_over_time({times}[{self._range(PRESENT_S)}:1m])"
        return any_of([aggregate("max", labels, times), aggregate("max", labels, earlier)])

    def _anything(self) -> str:
        """The metrics that show that an entity is there; for jobs and nodes those of their GPUs."""
        names = "|".join(self._name(key) for key in PRESENT)
        required = self.required if self.each == "gpu" else ENTITY_LABELS[self.each]
        return f"{{{','.join([f'__name__=~{quoted(names)}', *_not_empty(required)])}}}"

    def _count(self, node: Over) -> Vector:
        """How many samples there are; none is a count as well."""
        counted = self.over(replace(node, function="count", q=None))
        if counted is None:
            raise TypeError("a count has a value without samples")
        return counted

    def _without(self, kind: EntityKind, value: float) -> Vector:
        """What a function gives for entities without samples in the window."""
        there = replace(self, each=kind, required=self._needed(kind)).present()
        zero = infix("*", there, 0.0)
        return infix("+", zero, value) if value else zero

    def _fields(self, node: Over, kind: EntityKind, window: str) -> Mapping[str, str]:
        """The fields of `WindowFunction.promql`."""
        fields = {"samples": window, "q": number(node.q or 0.0)}
        if self._is_counter(node):
            fields |= self._counter_fields(node, kind)
        return fields

    def _enough(self, node: Over, window: str) -> str:
        """The condition that a window has its samples; one sample is there in any case."""
        needed = math.ceil((self.settings.limits.min_coverage - _SLACK) * self._expected(node))
        return f" and count_over_time({window}) >= {needed}" if needed > 1 else ""

    def _expected(self, node: Over) -> float:
        return max(1.0, node.window_s / self.settings.step_s)

    # ---- counters ----

    def _samples_of(self, node: Over, kind: EntityKind) -> str:
        """The samples of a window; those of a counter are what each gained since the last."""
        selected = self._selector(node.metric, kind)
        if not self._is_counter(node):
            return selected + self._window(node)
        return self._gained(selected) + self._window(node, self._step)

    def _gained(self, selected: str) -> str:
        """What a counter gained since the sample before, at each step that has a sample.

        PromQL's own `increase` guesses what happened between the samples and the ends of the
        window: it gives 1.02 in ten minutes where a counter went from 5 to 6.
        """
        step_s = self.settings.step_s
        now = f"last_over_time({selected}[{self._range(step_s)}])"
        gap = self._range(max(3, round(COUNTER_GAP_S / step_s)) * step_s)
        before = f"last_over_time({selected}[{gap}] offset {duration(step_s)})"
        # A counter that fell began again at zero.
        return f"({now} - ({before} <= {now} or {before} * 0))"

    def _counter_fields(self, node: Over, kind: EntityKind) -> Mapping[str, str]:
        gained = self._gained(self._selector(node.metric, kind))
        window, times = self._window(node, self._step), f"({gained} * 0 + time())"
        # Within the subquery as well this is the first sample of the whole window.
        first_s = f"min_over_time({times}{self._window(node, self._step, ' @ end()')})"
        after_first = f"({gained} and {first_s} < time()){window}"
        return {"after_first": after_first, "times": f"{times}{window}", "first_s": first_s}

    def _is_counter(self, node: Over) -> bool:
        return self.registry.metric(node.metric).kind == "counter"

    # ---- how it is written ----

    def _needed(self, kind: EntityKind) -> Labels:
        return self.required if kind == self.each else ENTITY_LABELS[kind]

    def _selector(self, key: str, kind: EntityKind) -> str:
        try:
            attributes = self.registry.point_attributes(key)
            name = self._name(key)
        except (KeyError, ValueError):
            raise NotInPromqlError(f"{key} is not an exported metric") from None
        matchers = [f"{label_name(a)}={quoted(v)}" for a, v in sorted(attributes.items())]
        matchers += _not_empty(self._needed(kind))
        return name + (f"{{{','.join(matchers)}}}" if matchers else "")

    def _name(self, key: str) -> str:
        metric = self.registry.metric(key)
        return metric_name(metric.name, metric.unit, metric.kind).metric

    @property
    def _step(self) -> str:
        return f":{duration(self.settings.step_s)}"

    def _steps(self, before_s: float) -> int:
        """How many steps a time lies before the instant of judgement."""
        return -Steps(self.settings.step_s).bucket(-before_s)

    def _rows(self, node: Over) -> int:
        return self._steps(node.offset_s + node.window_s) - self._steps(node.offset_s)

    def _window(self, node: Over, step: str = "", at: str = "") -> str:
        length_s = self._rows(node) * self.settings.step_s
        offset_s = self._steps(node.offset_s) * self.settings.step_s
        offset = f" offset {duration(offset_s)}" if offset_s else ""
        return f"[{self._range(length_s)}{step}]{at}{offset}"

    def _range(self, seconds: float) -> str:
        return duration(seconds - 0.001 if self.settings.closed_windows else seconds)


def _entity(kind: EntityKind, text: str) -> Vector:
    return aggregate("max", ENTITY_LABELS[kind], text)


def _not_empty(labels: Labels) -> list[str]:
    return [f'{label}!=""' for label in labels]
