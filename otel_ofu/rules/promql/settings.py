"""What a condition leaves open and its translation needs to know."""

from __future__ import annotations

from dataclasses import dataclass

from otel_ofu.model import EntityKind
from otel_ofu.rules.promql.vectors import Labels

ENTITY_LABELS: dict[EntityKind, Labels] = {
    "gpu": ("hw_id", "ofu_job_id", "ofu_gpu_sku", "host_name"),
    "job": ("ofu_job_id",),
    "node": ("host_name",),
}
PEER_LABELS: Labels = ("ofu_job_id", "ofu_gpu_sku")


@dataclass(frozen=True, slots=True)
class Settings:
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
