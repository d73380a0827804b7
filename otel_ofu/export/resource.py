"""Attributes, resources and one entity's ResourceMetrics as OTLP messages.

Enters: attribute mappings, entities, registry keys with values. Leaves: `KeyValue` and `Resource`
messages; an encoded resource, and what is kept of an entity between ticks.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from google.protobuf.internal.containers import RepeatedCompositeFieldContainer
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, InstrumentationScope, KeyValue
from opentelemetry.proto.metrics.v1.metrics_pb2 import (
    AggregationTemporality,
    DataPointFlags,
    NumberDataPoint,
)
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric as MetricMessage
from opentelemetry.proto.resource.v1.resource_pb2 import Resource

from otel_ofu.catalog.registry import Metric, Registry
from otel_ofu.export.request import EncodedResource
from otel_ofu.model import Attribute, Entity, Observation

EntityKey = tuple[str, str, frozenset[tuple[str, Attribute]]]


def entity_key(entity: Entity) -> EntityKey:
    """What makes resources different: a GPU that changes its job becomes another resource."""
    return entity.kind, entity.id, frozenset(entity.attributes.items())


def instance_id(entity: Entity, here: Attribute | None = None) -> str:
    """`service.instance.id`: the hw.id of a GPU, the id of anything else.

    What a node or a gateway alone sees of a job has its name too; `here` is that of this machine.
    """
    if entity.kind == "gpu":
        return hw_id(entity)
    match entity.attributes.get("ofu.job.scope"):
        case "node":
            seen_by = entity.attributes.get(HOST)
        case "fleet":
            seen_by = here
        case _:
            seen_by = None
    return f"{entity.id}/{seen_by}" if seen_by else entity.id


def hw_id(entity: Entity) -> str:
    """UUID of the GPU or MIG instance that the entity is."""
    return str(entity.attributes.get("hw.id", entity.id))


HOST = "host.name"
HOST_ATTRIBUTES = (HOST, "host.id", "k8s.node.name")
"""What names the machine that the agent runs on, among the common attributes."""


def known_attributes(common: Mapping[str, Attribute], entity: Entity) -> dict[str, Attribute]:
    """Common attributes, and the entity's over them.

    What is not on the agent's machine (a GPU that an exporter elsewhere reports, a job over several
    nodes) has nothing of that machine.
    """
    here = common.get(HOST)
    of_no_host = None if entity.kind == "job" else here
    if entity.attributes.get(HOST, of_no_host) == here:
        return {**common, **entity.attributes}
    elsewhere = {name: value for name, value in common.items() if name not in HOST_ATTRIBUTES}
    return {**elsewhere, **entity.attributes}


def resource_of(common: Mapping[str, Attribute], entity: Entity | None) -> Resource:
    """The attributes of the entity, and the instance id that keeps series apart."""
    if entity is None:
        return Resource(attributes=key_values(common))
    attributes = known_attributes(common, entity)
    attributes["service.instance.id"] = instance_id(entity, common.get(HOST))
    return Resource(attributes=key_values(attributes))


def key_values(attributes: Mapping[str, Attribute]) -> list[KeyValue]:
    return [key_value(name, value) for name, value in attributes.items()]


def key_value(name: str, value: Attribute) -> KeyValue:
    return KeyValue(key=name, value=_any_value(value))


def _any_value(value: Attribute) -> AnyValue:
    match value:
        case bool():
            return AnyValue(bool_value=value)
        case int():
            return AnyValue(int_value=value)
        case float():
            return AnyValue(double_value=value)
        case _:
            # Names of jobs and pods come from other systems and need not be proper Unicode.
            return AnyValue(string_value=value.encode("utf-8", "replace").decode())


def unix_nano(seconds: float) -> int:
    """Unix seconds as nanoseconds, rounded to the microsecond that a float can hold."""
    return round(seconds * 1e6) * 1000


Points = RepeatedCompositeFieldContainer[NumberDataPoint]

SCOPE_NAME = "otel_ofu"
_END = DataPointFlags.DATA_POINT_FLAGS_NO_RECORDED_VALUE_MASK
_CUMULATIVE = AggregationTemporality.AGGREGATION_TEMPORALITY_CUMULATIVE
# Starting value: keys carry label values (an XID code); far more of them mean that they churn.
_MOST_PLANS = 4096


@dataclass(slots=True)
class EntityState:
    """An entity between two ticks; `live` holds the keys that had a value and their start, ns.

    `begun`: counters with a known start that went out. `first_end_ns`: the end of the first tick.

    Attributes of points are kept serialised (see `_attributes`): `identity` goes on every point,
    `copied` by name on those of metrics that ask for it, as of the last tick: of `on_points`.
    """

    resource: Resource
    identity: bytes
    on_points: Mapping[str, Attribute] = field(default_factory=dict)
    copied: Mapping[str, bytes] = field(default_factory=dict)
    live: dict[str, int] = field(default_factory=dict)
    begun: set[str] = field(default_factory=set)
    first_end_ns: int = 0
    last_end_ns: int = 0


def new_entity_state(common: Mapping[str, Attribute], entity: Entity) -> EntityState:
    """A new track."""
    return EntityState(
        resource=resource_of(common, entity),
        identity=_attributes({"hw.id": hw_id(entity)} if entity.kind == "gpu" else {}),
    )


def point_attributes(
    group: Sequence[Observation], names: Collection[str]
) -> Mapping[str, Attribute]:
    """What some metrics (`names`) carry of their entity, or of what its values count in."""
    known = group[0].entity.attributes
    found = {name: known[name] for name in names if name in known}
    for observation in group:
        found |= observation.point_attributes
    return found


def serialised(attributes: Mapping[str, Attribute]) -> Mapping[str, bytes]:
    """Each attribute as `EntityState.copied` holds it."""
    return {name: _attributes({name: value}) for name, value in attributes.items()}


def _attributes(attributes: Mapping[str, Attribute]) -> bytes:
    """The attributes as a serialised point that has nothing else.

    Serialised messages of one kind that stand one after the other are one message with the fields
    of all (protobuf encoding, "Last One Wins"). So the attributes that points share are serialised
    once, joined as bytes, and merged into each point: a third of the cost of copying the attribute
    messages for every point (bench/encode.py).
    """
    return NumberDataPoint(attributes=key_values(attributes)).SerializeToString()


@dataclass(frozen=True, slots=True)
class KeyPlan:
    """What a registry key means on the wire; its own attributes are serialised."""

    metric: Metric
    attributes: bytes


class KeyPlans:
    """Plans by key, built at first use and forgotten when keys churn."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._plans: dict[str, KeyPlan] = {}
        self.on_points = {n for m in registry.metrics.values() for n in m.points_with}

    def plan(self, key: str) -> KeyPlan:
        """KeyError if the registry has no such key, or no number of it goes over the wire."""
        found = self._plans.get(key)
        return found if found is not None else self._new(key)

    def _new(self, key: str) -> KeyPlan:
        if len(self._plans) >= _MOST_PLANS:
            self._plans.clear()
        metric = self._registry.metric(key)
        if metric.kind == "histogram":
            raise KeyError(key)
        try:
            attributes = _attributes(self._registry.point_attributes(key))
        except ValueError:  # more or fewer labels than the metric has
            raise KeyError(key) from None
        return self._plans.setdefault(key, KeyPlan(metric, attributes))


class ResourceMetricsBuilder:
    """Collects the points of one entity; points of one metric name share a message."""

    def __init__(
        self,
        state: EntityState,
        plans: KeyPlans,
        version: str,
        descriptions: bool,  # noqa: FBT001 - passed on from the options
    ) -> None:
        self._state = state
        self._plans = plans
        self._descriptions = descriptions
        self._by_name: dict[str, Points] = {}
        self._request = ExportMetricsServiceRequest()
        resource_metrics = self._request.resource_metrics.add(resource=state.resource)
        self._scope = resource_metrics.scope_metrics.add(
            scope=InstrumentationScope(name=SCOPE_NAME, version=version)
        )
        self.points = 0

    def encoded(self) -> EncodedResource:
        return EncodedResource(self._request.SerializeToString(), self.points)

    def add(self, key: str, value: float, span_ns: tuple[int, int]) -> int:
        """Adds a value over (start, end], Unix nanoseconds; the start that went out.

        A gauge has no start: 0. KeyError for a key that the registry does not know.
        """
        plan = self._plans.plan(key)
        start_ns = 0 if plan.metric.kind == "gauge" else span_ns[0]
        self._points_of(plan.metric).add(
            start_time_unix_nano=start_ns, time_unix_nano=span_ns[1], as_double=value
        ).MergeFromString(self._attributes_of(plan))
        self.points += 1
        return start_ns

    def end(self, key: str, span_ns: tuple[int, int]) -> None:
        """Adds the point that ends a series: no value from here on."""
        plan = self._plans.plan(key)
        self._points_of(plan.metric).add(
            start_time_unix_nano=span_ns[0], time_unix_nano=span_ns[1], flags=_END
        ).MergeFromString(self._attributes_of(plan))
        self.points += 1

    def _attributes_of(self, plan: KeyPlan) -> bytes:
        both = plan.attributes + self._state.identity
        for name in plan.metric.points_with:
            both += self._state.copied.get(name, b"")
        return both

    def _points_of(self, metric: Metric) -> Points:
        points = self._by_name.get(metric.name)
        if points is None:
            points = self._by_name[metric.name] = self._new_metric(metric)
        return points

    def _new_metric(self, metric: Metric) -> Points:
        brief = metric.brief if self._descriptions else ""
        message = self._scope.metrics.add(name=metric.name, unit=metric.unit, description=brief)
        return _points_in(message, metric.kind)


def _points_in(message: MetricMessage, kind: str) -> Points:
    if kind == "gauge":
        return message.gauge.data_points
    message.sum.aggregation_temporality = _CUMULATIVE
    message.sum.is_monotonic = kind == "counter"
    return message.sum.data_points
