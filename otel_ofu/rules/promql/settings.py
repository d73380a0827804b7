"""What a condition leaves open and its translation needs to know."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from otel_ofu.model import Entity, EntityKind
from otel_ofu.model.labels import ID_ATTRIBUTES, label_name
from otel_ofu.rules.promql.vectors import Labels

ENTITY_LABELS: dict[EntityKind, Labels] = {
    "gpu": ("hw_id", "ofu_job_id", "ofu_gpu_sku", "host_name"),
    "job": ("ofu_job_id",),
    "node": ("host_name",),
}
PEER_LABELS: Labels = ("ofu_job_id", "ofu_gpu_sku")


@dataclass(frozen=True, slots=True)
class CompilerSettings:
    """How the metrics are sampled, and how much of a window or a group a value needs.

    `step_s`: seconds between two samples, 1 ms at least. `min_coverage`: share of a window's
    samples, [0, 1]; `count` and `last` need none. `min_peers`: GPUs with a value in a group of
    peers, 1 at least. `closed_windows`: the server counts a sample at the very start of a window
    as in it (Prometheus before 3.0 and what was built on it); windows are then written 1 ms
    shorter, which every server reads alike.
    """

    step_s: float = 10.0
    min_coverage: float = 0.5
    min_peers: int = 4
    closed_windows: bool = False


Key = tuple[str, ...]

_ATTRIBUTES = {label_name(name): name for name in (*ID_ATTRIBUTES.values(), "ofu.gpu.sku")}


def key_of(kind: EntityKind, labels: Mapping[str, str]) -> Key:
    """The values of the labels that identify the entities of a kind; empty for none."""
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
