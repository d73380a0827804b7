"""Whose a sample is: labels <-> entities."""

from __future__ import annotations

from collections.abc import Mapping

from otel_ofu.model import Entity, EntityKind
from otel_ofu.model.labels import ID_ATTRIBUTES, label_name
from otel_ofu.rules.promql.settings import ENTITY_LABELS

Key = tuple[str, ...]

_ATTRIBUTES = {label_name(name): name for name in (*ID_ATTRIBUTES.values(), "ofu.gpu.sku")}


def key_of(kind: EntityKind, labels: Mapping[str, str]) -> Key:
    """The values of the labels that tell the entities of a kind apart; empty for none."""
    return tuple(labels.get(label, "") for label in ENTITY_LABELS[kind])


def entity_of(kind: EntityKind, key: Key) -> Entity:
    """The entity as derive names it: a GPU under a job is another entity than without."""
    attributes = {
        _ATTRIBUTES[label]: value
        for label, value in zip(ENTITY_LABELS[kind], key, strict=True)
        if value
    }
    if kind == "gpu" and attributes.get("ofu.job.id"):
        entity_id = f"{attributes.get('hw.id', '')}/{attributes['ofu.job.id']}"
    else:
        entity_id = key[0]
    return Entity(kind, entity_id, attributes)
