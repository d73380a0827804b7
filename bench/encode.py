"""Claim: encoding a tick costs a node agent next to nothing, and a gateway microseconds a point.

`run()` encodes made-up observations as the agent does, gzip included, and returns CPU times and
sizes; the best of a few rounds.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from otel_ofu.catalog.registry import load_registry
from otel_ofu.export.file import json_line
from otel_ofu.export.metrics import EncoderOptions, MetricEncoder
from otel_ofu.export.prometheus import PageOptions, PrometheusPage
from otel_ofu.model import Attribute, Entity, Observation, Window
from otel_ofu.outbox.batch import Body

KEYS = 40
START_S = 1_700_000_000.0
COMMON: dict[str, Attribute] = {
    "service.name": "otel-ofu",
    "service.version": "0.1",
    "host.name": "node-17",
}


def entity(number: int) -> Entity:
    uuid = f"GPU-{number:08x}-0000-4000-8000-000000000000"
    attributes: dict[str, Attribute] = {
        "hw.id": uuid,
        "hw.model": "NVIDIA H100 80GB HBM3",
        "hw.vendor": "nvidia",
        "ofu.gpu.sku": "h100-sxm5",
        "ofu.gpu.index": number % 8,
        "ofu.precision": "bf16",
        "ofu.precision.source": "declared",
        "ofu.reference_clock": 1.83e9,
        "ofu.job.id": "4711",
        "ofu.job.source": "slurm",
        "slurm.job.id": "4711",
    }
    return Entity("gpu", uuid, attributes)


def tick(entities: Sequence[Entity], number: int) -> list[Observation]:
    metrics = load_registry().metrics.items()
    keys = [k for k, m in metrics if m.entity == "gpu" and not m.labels][:KEYS]
    end_s = START_S + 10.0 * number
    window = Window(end_s - 10.0, end_s)
    return [
        Observation(e, window, {key: 0.001 * number + 0.37 * i for i, key in enumerate(keys)})
        for e in entities
    ]


def encode_s(gpus: int, rounds: int) -> tuple[float, list[Body]]:
    """Best CPU time of one tick in seconds, and its bodies."""
    encoder = MetricEncoder(load_registry(), COMMON, EncoderOptions(START_S))
    entities = [entity(i) for i in range(gpus)]
    best_s, bodies = float("inf"), list[Body]()
    for number in range(rounds):
        observations = tick(entities, number)
        began_s = time.process_time()
        bodies = encoder.encode(observations)
        best_s = min(best_s, time.process_time() - began_s)
    return best_s, bodies


def page_s(gpus: int) -> float:
    page = PrometheusPage(load_registry(), COMMON, PageOptions(10.0))
    page.update(tick([entity(i) for i in range(gpus)], 1))
    began_s = time.process_time()
    page.text(START_S + 10.0)
    return time.process_time() - began_s


def json_s(bodies: Sequence[Body]) -> float:
    began_s = time.process_time()
    for body in bodies:
        json_line(body)
    return time.process_time() - began_s


def run() -> dict[str, float | str]:
    node_s, node = encode_s(8, rounds=20)
    fleet_s, fleet = encode_s(10_000, rounds=2)
    points = sum(body.points for body in fleet)
    return {
        f"8 GPUs x {KEYS} metrics: CPU ms a tick, gzip included": round(node_s * 1e3, 2),
        "8 GPUs: bytes of a body, gzip": sum(len(b.gzipped) for b in node),
        "8 GPUs: bytes of a body, raw": sum(len(b.raw()) for b in node),
        f"10,000 GPUs ({points} points): CPU us a point": round(fleet_s / points * 1e6, 2),
        "10,000 GPUs: requests a tick": len(fleet),
        "8 GPUs: CPU ms of an OTLP JSON line": round(json_s(node) * 1e3, 2),
        "8 GPUs: CPU ms of a Prometheus page": round(page_s(8) * 1e3, 2),
    }


if __name__ == "__main__":
    for what, value in run().items():
        print(f"{what}: {value}")
