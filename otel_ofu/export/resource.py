"""Attributes and resources as OTLP messages.

Enters: attribute mappings and entities. Leaves: `KeyValue` and `Resource` messages.
"""

from __future__ import annotations

from collections.abc import Mapping

from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.resource.v1.resource_pb2 import Resource

from otel_ofu.model import Attribute, Entity

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
