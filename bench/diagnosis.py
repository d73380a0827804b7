"""Diagnosis of 500 findings that open in one round, in a fleet of 10,000 GPUs.

`run()` fills a store with every metric that a cause looks at, of jobs of 64 GPUs, and diagnoses 400
findings of GPUs and 100 of jobs at one instant. The round of all causes is shared by them.
"""

from __future__ import annotations

import statistics
import time

import numpy as np

from otel_ofu.catalog.registry import load_registry
from otel_ofu.diagnose import CauseCatalogue, Diagnoser, evaluated_expressions, load_causes
from otel_ofu.files.installed import shipped
from otel_ofu.model import Attribute, Entity, EntityKind, Finding, Window
from otel_ofu.model.clock import VirtualClock
from otel_ofu.rules.language.syntax import FlagCondition, Latest, Over, nodes_of, owner
from otel_ofu.rules.numpy.engine import NumpyEngine
from otel_ofu.rules.numpy.samples import retention_for
from otel_ofu.store import Store

GPUS = 10_000
GPUS_A_JOB = 64
GPUS_A_NODE = 8
STEP_S = 30.0
SAMPLES = 160
START_S = 1_800_000_000.0
FINDINGS_OF_GPUS, FINDINGS_OF_JOBS = 400, 100
ROUNDS = 5


def run() -> dict[str, float | str]:
    registry = load_registry()
    causes = load_causes(shipped("rules") / "causes.yaml", registry)
    clock = VirtualClock(START_S)
    store = Store(
        registry,
        retention_for(evaluated_expressions(causes, registry), STEP_S),
        step_s=STEP_S,
        clock=clock,
    )
    _fill(store, clock, causes)
    findings = _findings(store, clock.now_s())
    times = []
    for _ in range(ROUNDS):
        diagnoser = Diagnoser(causes, NumpyEngine(store), store, registry)
        times.append(_timed(diagnoser, findings))
    one = statistics.median(first for first, _ in times)
    return {
        "GPUs": float(GPUS),
        "causes": float(len(causes.causes)),
        "first diagnosis of a round, judging all causes, s": one,
        "499 more of the same round, s": statistics.median(rest for _, rest in times),
    }


def _timed(diagnoser: Diagnoser, findings: list[Finding]) -> tuple[float, float]:
    begun_s = time.perf_counter()
    diagnoser.diagnose(findings[0])
    first_s = time.perf_counter()
    for finding in findings[1:]:
        diagnoser.diagnose(finding)
    return first_s - begun_s, time.perf_counter() - first_s


def _entities(kind: EntityKind) -> list[Entity]:
    if kind == "job":
        return [Entity("job", f"job-{n}", {"ofu.job.id": f"job-{n}"}) for n in _each(GPUS_A_JOB)]
    if kind == "node":
        return [Entity("node", f"node-{n}", {"host.name": f"node-{n}"}) for n in _each(GPUS_A_NODE)]
    return [_gpu(n) for n in range(GPUS)]


def _each(size: int) -> range:
    return range(-(-GPUS // size))


def _gpu(n: int) -> Entity:
    attributes: dict[str, Attribute] = {
        "hw.id": f"GPU-{n}",
        "ofu.job.id": f"job-{n // GPUS_A_JOB}",
        "host.name": f"node-{n // GPUS_A_NODE}",
        "ofu.gpu.sku": "h100-sxm5",
    }
    return Entity("gpu", f"GPU-{n}", attributes)


def _fill(store: Store, clock: VirtualClock, causes: CauseCatalogue) -> None:
    kinds: tuple[EntityKind, ...] = ("gpu", "job", "node")
    chance = np.random.default_rng(0)
    keys = _keys(causes)
    window = Window(START_S, START_S + STEP_S)
    columns = {kind: store.admit(_entities(kind), window) for kind in kinds}
    level = {place: chance.uniform(0.05, 0.95, len(columns[place[0]])) for place in keys}
    for n in range(1, SAMPLES + 1):
        now_s = START_S + n * STEP_S
        clock.set(now_s)
        for kind, key in keys:
            flag = key.startswith("flag:")
            values = np.zeros(len(columns[kind])) if flag else level[kind, key]
            store.write_columns(kind, key, now_s, columns[kind], values)


def _keys(causes: CauseCatalogue) -> list[tuple[EntityKind, str]]:
    found: dict[tuple[EntityKind, str], None] = {("gpu", "ofu"): None}
    for expression in causes.expressions():
        for node, kind in nodes_of(expression.root, expression.each):
            if isinstance(node, Over | Latest):
                found[owner(kind, node.scope), node.metric] = None
            elif isinstance(node, FlagCondition):
                found["gpu", node.metric] = None
    return list(found)


def _findings(store: Store, now_s: float) -> list[Finding]:
    gpus = store.entities("gpu")[:: GPUS // FINDINGS_OF_GPUS][:FINDINGS_OF_GPUS]
    jobs = store.entities("job")[:FINDINGS_OF_JOBS]
    return [_finding(entity, now_s) for entity in [*gpus, *jobs]]


def _finding(entity: Entity, now_s: float) -> Finding:
    name = f"{entity.kind} {entity.id}"
    return Finding("opened", "Bench", entity, name, "warning", now_s, now_s - 600, name)


if __name__ == "__main__":
    for what, value in run().items():
        print(f"{what:60} {value}")
