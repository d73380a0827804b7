"""What is known now, as a page of the Prometheus text format, and the server of that page.

Enters: the observations of the last tick; requests. Leaves: the page.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from otel_ofu.catalog.prometheus_names import PrometheusName, help_text, label_value, metric_name
from otel_ofu.catalog.registry import Metric, Registry
from otel_ofu.export.resource import hw_id, known_attributes
from otel_ofu.export.settings import PrometheusSettings, page_address
from otel_ofu.model import Attribute, Entity, Observation
from otel_ofu.model.labels import label_name
from otel_ofu.net.http_limits import HttpLimits
from otel_ofu.net.http_server import HttpServer
from otel_ofu.net.http_service import HttpRequest, HttpResponse, HttpRoute, HttpService, Reply
from otel_ofu.net.secrets import BearerToken
from otel_ofu.net.tls import server_context

METRICS = "/metrics"
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
DEFAULT_LABELS = ("ofu.gpu.sku", "ofu.job.id", "host.name")

# A server of Prometheus keeps one connection, seldom are there more than three of them. Deadlines:
# starting values, those of the scrape (10 s by default) where a scraper waits for the page.
_LIMITS = HttpLimits(connections=16, head_s=5.0, body_s=5.0, write_s=10.0)


@dataclass(frozen=True, slots=True)
class PageOptions:
    """`labels` names the resource attributes on every series, beside the entity's identity.

    A value that no round has brought for more than `stale_after` intervals is left out. Starting
    value: a round may be late or left out once; then the page must not show the past as present.
    """

    interval_s: float
    labels: Sequence[str] = DEFAULT_LABELS
    stale_after: float = 3.0


@dataclass(slots=True)
class _Family:
    """One metric: its head, and its samples by label set; of two equal ones the later counts."""

    name: PrometheusName
    metric: Metric
    samples: dict[str, float] = field(default_factory=dict)

    def lines(self) -> Iterator[str]:
        name, unit = self.name
        yield f"# HELP {name} {help_text(self.metric.brief)}"
        yield f"# TYPE {name} {'counter' if self.metric.kind == 'counter' else 'gauge'}"
        if unit:
            yield f"# UNIT {name} {unit}"
        for labels, value in self.samples.items():
            yield f"{name}{{{labels}}} {value!r}" if labels else f"{name} {value!r}"


@dataclass(frozen=True, slots=True)
class _Held:
    """One entity: by key its value, and the instant as of which it is known.

    `on_points`: attributes that some metrics carry on their points.
    """

    entity: Entity
    values: Mapping[str, tuple[float, float]]
    on_points: Mapping[str, Attribute]


class PrometheusPage:
    """Holds the last tick; a series that is not in it is gone at once. Thread-safe.

    A key whose gap is `not_ready` keeps its last value while that is fresh: the next one is still
    to come, from an exporter that refreshes less often than it is read.
    """

    def __init__(
        self, registry: Registry, common: Mapping[str, Attribute], options: PageOptions
    ) -> None:
        self._registry = registry
        self._common = dict(common)
        self._options = options
        self._held: Mapping[str, _Held] = {}

    def update(self, observations: Sequence[Observation], now_s: float | None = None) -> None:
        """Puts one round in place of the one before; all that it brings of an entity counts.

        `now_s`: the instant of the round, where windows may have ended long before, as those of an
        exporter that refreshes its page less often than it is read.
        """
        groups: dict[str, list[Observation]] = {}
        for observation in observations:
            groups.setdefault(_id_of(observation), []).append(observation)
        before = self._held
        self._held = {
            id_: _Held(group[0].entity, _values(group, before.get(id_), now_s), _on_points(group))
            for id_, group in groups.items()
        }

    def add(self, observations: Sequence[Observation]) -> None:
        """Puts more values of entities beside those of the last round."""
        held = dict(self._held)
        for observation in observations:
            id_ = _id_of(observation)
            known = held.get(id_) or _Held(observation.entity, {}, _on_points([observation]))
            values = {**known.values, **_values([observation], None, None)}
            held[id_] = _Held(known.entity, values, known.on_points)
        self._held = held

    def text(self, now_s: float) -> str:
        """The page at `now_s` (Unix seconds). Empty if nothing is known."""
        oldest_s = now_s - self._options.stale_after * self._options.interval_s
        families: dict[str, _Family] = {}
        for held in self._held.values():
            self._add(families, held, oldest_s)
        lines = [line for family in families.values() for line in family.lines()]
        return "\n".join([*lines, ""])

    def _add(self, families: dict[str, _Family], held: _Held, oldest_s: float) -> None:
        identity = self._identity(held.entity)
        for key, (value, end_s) in held.values.items():
            metric = self._metric(key)
            if metric is None or end_s < oldest_s or not math.isfinite(value):
                continue
            family = families.get(metric.name)
            if family is None:
                name = metric_name(metric.name, metric.unit, metric.kind)
                family = families[metric.name] = _Family(name, metric)
            labels = identity | self._point_attributes(key, metric, held.on_points)
            family.samples[_label_set(labels)] = float(value)

    def _metric(self, key: str) -> Metric | None:
        try:
            metric = self._registry.metric(key)
        except KeyError:  # counted and logged by the encoder
            return None
        return None if metric.kind == "histogram" else metric

    def _point_attributes(
        self, key: str, metric: Metric, on_points: Mapping[str, Attribute]
    ) -> dict[str, Attribute]:
        found = {n: on_points[n] for n in metric.points_with if n in on_points}
        return {**self._registry.point_attributes(key), **found}

    def _identity(self, entity: Entity) -> dict[str, Attribute]:
        known = known_attributes(self._common, entity)
        own = {"gpu": "hw.id", "job": "ofu.job.id", "node": "host.name"}[entity.kind]
        labels = {own: hw_id(entity) if own == "hw.id" else known.get(own, entity.id)}
        return labels | {name: known[name] for name in self._options.labels if name in known}


def _id_of(observation: Observation) -> str:
    return f"{observation.entity.kind} {observation.entity.id}"


def _values(
    group: Sequence[Observation], old: _Held | None, now_s: float | None
) -> dict[str, tuple[float, float]]:
    """The values of one round of an entity: the newest of each key, of equally new the later."""
    kept = old.values if old else {}
    found = {key: held for key, held in kept.items() if any(o.is_to_come(key) for o in group)}
    for observation in sorted(group, key=lambda o: o.window.end_s):
        end_s = observation.window.end_s if now_s is None else now_s
        found |= {key: (value, end_s) for key, value in observation.values.items()}
    return found


def _on_points(group: Sequence[Observation]) -> Mapping[str, Attribute]:
    found = dict(group[0].entity.attributes)
    for observation in group:
        found |= observation.point_attributes
    return found


def _label_set(labels: Mapping[str, Attribute]) -> str:
    """Sorted, so that equal sets are equal text; an empty value is no label in Prometheus."""
    return ",".join(
        f'{label_name(name)}="{label_value(value)}"'
        for name, value in sorted(labels.items())
        if value != ""
    )


def page_server(text: Callable[[], str], settings: PrometheusSettings) -> HttpServer:
    """Serves what `text` returns at /metrics. ValueError if it cannot, in one line."""

    def scrape(_request: HttpRequest, reply: Reply) -> None:
        reply(HttpResponse(text().encode("utf-8", "replace"), CONTENT_TYPE))

    token = BearerToken(settings.bearer_token_file) if settings.bearer_token_file else None
    return HttpServer(
        page_address(settings.listen),
        HttpService([HttpRoute("GET", METRICS, scrape)], token.allows if token else None),
        _LIMITS,
        context=server_context(settings.cert_file, settings.key_file),
    )
