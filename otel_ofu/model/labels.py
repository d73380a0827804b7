"""Attribute names as labels: one name in a template, in an alert and on a Prometheus series.

Enters: the OpenTelemetry name of an attribute, an entity. Leaves: label names and label values.
Source: the otlptranslator of Prometheus, whose names the OTLP receivers of Prometheus and Mimir
and the Collector's exporters give, with their defaults.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

from otel_ofu.model.observation import Entity, EntityKind

ID_ATTRIBUTES: Mapping[EntityKind, str] = {
    "gpu": "hw.id",
    "job": "ofu.job.id",
    "node": "host.name",
}
"""The attribute that distinguishes the entities of a kind."""

_NOT_IN_LABELS = re.compile(r"[^a-zA-Z0-9_]")
_LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")


@lru_cache(maxsize=4_096)  # more names than a registry has, and a bound for those of a user
def label_name(attribute: str) -> str:
    """`hw.id` -> `hw_id`, `2nd.rack` -> `key_2nd_rack`.

    Each character that a label cannot have becomes an underscore. `key` stands before a digit, and
    before a single underscore, as labels that begin with one are for internal use.
    """
    name = _NOT_IN_LABELS.sub("_", attribute)
    if not name or name[0].isdigit():
        return f"key_{name}"
    return f"key{name}" if name[0] == "_" and name[1:2] != "_" else name


def is_label_name(name: str) -> bool:
    """Whether a name can be a label as it is written."""
    return _LABEL.fullmatch(name) is not None


def label_text(value: object) -> str:
    """The value of an attribute as that of a label; booleans as `true` and `false`."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def entity_labels(entity: Entity | None) -> dict[str, str]:
    """The attributes of an entity as labels; its id is always among them."""
    if entity is None:
        return {}
    labels = {label_name(k): label_text(v) for k, v in entity.attributes.items()}
    labels.setdefault(label_name(ID_ATTRIBUTES[entity.kind]), entity.id)
    return labels
