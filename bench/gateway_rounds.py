"""A round of a gateway over 10,000 GPUs: OTLP decoded into the store, jobs made, totals kept.

`run()` gives CPU milliseconds of each part for jobs of 64 GPUs and of one. Agents are 1,250 nodes
with 8 GPUs that send 35 metrics each. `python bench/gateway_rounds.py` prints the table.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from otel_ofu.app.job_reports import FleetCollector, JobReports
from otel_ofu.catalog.registry import load_registry
from otel_ofu.config import Config
from otel_ofu.derive.gpu_time import GpuTimeMeter
from otel_ofu.export.metrics import EncoderOptions, MetricEncoder
from otel_ofu.model import Entity, Observation, Window
from otel_ofu.model.clock import VirtualClock
from otel_ofu.receive import Buffer
from otel_ofu.receive.decode import Decoder
from otel_ofu.store import FleetState, Store

START_S = 1_800_000_000.0
STEP_S = 10.0
NODES, GPUS_A_NODE = 1250, 8
METRICS = 30
ROUNDS, WARM_UP = 8, 3


class Node:
    """One agent: its observations with their counters, encoded."""

    def __init__(self, number: int, gpus_a_job: int) -> None:
        registry = load_registry()
        common = {"service.name": "otel-ofu", "host.name": f"n{number:04}"}
        self._encoder = MetricEncoder(registry, common, EncoderOptions(START_S))
        self._meter = GpuTimeMeter()
        first = number * GPUS_A_NODE
        gpus = range(first, first + GPUS_A_NODE)
        self._entities = [_entity(gpu, gpu // gpus_a_job, f"n{number:04}") for gpu in gpus]
        keys = [k for k, m in registry.metrics.items() if m.entity == "gpu" and m.kind == "gauge"]
        plain = [k for k in keys if not registry.metrics[k].labels]
        self._values = dict.fromkeys(plain[: METRICS - 1], 1.0) | {"ofu": 0.4}

    def bodies(self, now_s: float) -> list[bytes]:
        window = Window(now_s - STEP_S, now_s)
        seen = [Observation(entity, window, self._values) for entity in self._entities]
        counted = self._meter.count(seen, now_s)
        return [body.raw() for body in self._encoder.encode(counted.live, counted.kept)]


def _entity(gpu: int, job: int, host: str) -> Entity:
    uuid = f"GPU-{gpu:08x}-1b2c-3d4e-5f60-{gpu:012x}"
    attributes = {"hw.id": uuid, "host.name": host, "ofu.gpu.sku": "h100-sxm5"}
    return Entity("gpu", f"{uuid}/job-{job:05}", {**attributes, "ofu.job.id": f"job-{job:05}"})


def run() -> dict[str, float | str]:
    """CPU milliseconds a round."""
    table: dict[str, float | str] = {}
    for gpus_a_job in (64, 1):
        with tempfile.TemporaryDirectory(prefix="ofu-bench-") as folder:
            found = _measure(gpus_a_job, Path(folder))
        name = f"10,000 GPUs, jobs of {gpus_a_job}"
        table |= {f"{name}: {part}, ms": round(s * 1e3, 1) for part, s in found.items()}
    return table


def _measure(gpus_a_job: int, folder: Path) -> dict[str, float]:
    clock = VirtualClock(START_S)
    nodes = [Node(number, gpus_a_job) for number in range(NODES)]
    store = Store(load_registry(), step_s=STEP_S, state_dir=folder, clock=clock)
    fleet = FleetState.open(folder)
    decoder, buffer = Decoder(load_registry()), Buffer(store, fleet)
    collector = FleetCollector(Config(), store, JobReports(None, None, clock), fleet)

    def take(bodies: list[bytes]) -> None:
        for number, body in enumerate(bodies):
            buffer.add(decoder.decode(body, clock.now_s()), clock.now_s())
            if number % 25 == 0:  # what comes in a fifth of a second
                buffer.flush(clock.now_s())
        buffer.flush(clock.now_s())

    parts: dict[str, list[float]] = {"requests": [], "jobs": []}
    for _ in range(WARM_UP + ROUNDS):
        clock.advance(STEP_S)
        bodies = [body for node in nodes for body in node.bodies(clock.now_s())]
        parts["requests"].append(_cpu_s(partial(take, bodies)))
        parts["jobs"].append(_cpu_s(partial(collector.collect, (), clock.now_s())))
    return {name: statistics.median(each[WARM_UP:]) for name, each in parts.items()}


def _cpu_s(work: Callable[[], object]) -> float:
    began_s = time.process_time()
    work()
    return time.process_time() - began_s


def main() -> None:
    for name, value in run().items():
        print(f"{name:<50} {value}")


if __name__ == "__main__":
    main()
