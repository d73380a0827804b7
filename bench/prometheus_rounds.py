"""Claim: the embedded engine judges 20 rules over 10,000 GPUs many times faster than Prometheus.

`run()` loads the same samples into the store and, as a block, into a real Prometheus; both judge
the rules of `store_rounds.py` in one run on one machine: exported alerts as instant queries, one
after the other as a rule group does, and the engine that asks over HTTP. One row says so when the
peer is not built. The time of Prometheus is without scraping and writing, that of the store without
ingest; rules on counters are told apart: their exact increase costs more than its own.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bench.store_rounds import (
    GPUS_A_JOB,
    GPUS_A_NODE,
    METRICS,
    MISSING,
    RULES,
    SAMPLES,
    STEP_S,
)
from otel_ofu.catalog.prometheus_names import metric_name
from otel_ofu.catalog.registry import load_registry
from otel_ofu.files.settings import Duration
from otel_ofu.model import Entity, Window
from otel_ofu.model.clock import VirtualClock
from otel_ofu.model.labels import label_name
from otel_ofu.rules.language.language import parse_condition
from otel_ofu.rules.language.syntax import Over, walk
from otel_ofu.rules.numpy.engine import NumpyEngine
from otel_ofu.rules.numpy.samples import retention_for
from otel_ofu.rules.promql.compiler import alert_query
from otel_ofu.rules.promql.engine import PromqlEngine
from otel_ofu.rules.promql.server import QueryClient
from otel_ofu.rules.promql.vectors import CompilerSettings
from otel_ofu.rules.settings import ServerSettings
from otel_ofu.rules.verdicts import HOLDS, Condition, VerdictRound
from otel_ofu.store import Store
from tests.peers.build import where
from tests.peers.processes import Prometheus

SIZE = 10_000
START_S = 1_800_000_000.0
END_S = START_S + SAMPLES * STEP_S
LEVELS = {"Hz": 1.6e9, "W": 650.0, "J": 6_500.0, "Cel": 60.0, "By": 20e9, "By/s": 20e9}
ROUNDS = 3

Values = NDArray[np.float64]


def run(size: int = SIZE) -> dict[str, float | str]:
    """Seconds of a round in each, their ratio, memory, and how many verdicts differ."""
    if where("prometheus") is None:
        return {"prometheus": "not built: run `make peers`"}
    with tempfile.TemporaryDirectory(prefix="ofu-bench-") as folder:
        return _measure(size, Path(folder))


def _measure(size: int, folder: Path) -> dict[str, float | str]:
    registry, fleet = load_registry(), _fleet(size)
    conditions = [Condition(parse_condition(text, "gpu", registry)) for text in RULES]
    clock = VirtualClock(END_S)
    retention = retention_for([q.expression for q in conditions], STEP_S)
    store = Store(registry, retention, step_s=STEP_S, clock=clock)
    samples = folder / "samples.txt"
    _fill(store, fleet, samples)
    ours, ours_s = _timed(lambda: NumpyEngine(store).round(conditions, END_S), ROUNDS)
    gauges = [condition for condition in conditions if not _counts(condition)]
    _, gauges_s = _timed(lambda: NumpyEngine(store).round(gauges, END_S), ROUNDS)
    peer = Prometheus(folder / "prometheus")
    load_s = _load(samples, peer.data)
    with peer, closing(QueryClient(ServerSettings(url=peer.url, timeout=Duration(300)))) as server:
        alerts_s = _alerts(conditions, server)
        engine = PromqlEngine(server, registry, step_s=STEP_S)
        started = time.perf_counter()
        theirs = engine.round(conditions, END_S)
        theirs_s = time.perf_counter() - started
        rss_mb = _rss_mb(peer.pid)
    queried = zip(conditions, alerts_s, strict=True)
    without_counters_s = sum(spent_s for condition, spent_s in queried if not _counts(condition))
    return {
        "gpus x metrics x samples": f"{size} x {len(METRICS)} x {SAMPLES + 1}",
        "embedded_round_s": ours_s,
        "prometheus_alerts_s": sum(alerts_s),
        "prometheus_alerts_without_counters_s": without_counters_s,
        "prometheus_slowest_alert_s": max(alerts_s),
        "prometheus_median_alert_s": statistics.median(alerts_s),
        "round_over_http_s": theirs_s,
        "alerts_to_embedded": sum(alerts_s) / ours_s,
        "alerts_to_embedded_without_counters": without_counters_s / gauges_s,
        "different_verdicts": _differences(ours, theirs),
        "verdicts": size * len(RULES),
        "prometheus_rss_mb": rss_mb,
        "prometheus_load_s": load_s,
    }


def _counts(condition: Condition) -> bool:
    """Whether a rule is about counters, whose exact increase costs Prometheus a subquery."""
    nodes = walk(condition.expression.root)
    exact = ("increase", "rate")
    return any(isinstance(node, Over) and node.function in exact for node in nodes)


def _alerts(conditions: Sequence[Condition], server: QueryClient) -> list[float]:
    """Seconds of each exported alert as an instant query."""
    registry, spent_s = load_registry(), []
    for condition in conditions:
        text = alert_query(condition.expression, registry, CompilerSettings(STEP_S))
        started = time.perf_counter()
        server.query(text, END_S)
        spent_s.append(time.perf_counter() - started)
    return spent_s


def _fleet(size: int) -> list[Entity]:
    return [_gpu(f"GPU-{i:08x}", f"job-{i // GPUS_A_JOB}", i) for i in range(size)]


def _gpu(uuid: str, job: str, number: int) -> Entity:
    node = f"node-{number // GPUS_A_NODE}"
    labels = {"hw.id": uuid, "ofu.job.id": job, "ofu.gpu.sku": "h100-sxm5", "host.name": node}
    return Entity("gpu", f"{uuid}/{job}", labels)


def _fill(store: Store, fleet: Sequence[Entity], path: Path) -> None:
    """The same samples into the store and into a file for promtool."""
    columns = store.admit(fleet, Window(START_S - STEP_S, START_S))
    rng = np.random.default_rng(7)
    with path.open("w") as out:
        for key in METRICS:
            values = _values(rng, key, len(fleet))
            for tick, row in enumerate(values):
                store.write_columns("gpu", key, START_S + tick * STEP_S, columns, row)
            out.writelines(_lines(key, fleet, values))
        out.write("# EOF\n")


def _values(rng: np.random.Generator, key: str, size: int) -> Values:
    """[time, GPU]: a level with 5 % of noise, or a total that grows by so much; gaps."""
    metric = load_registry().metric(key)
    level = LEVELS.get(metric.unit, 0.4)
    values = level * (1 + 0.05 * rng.standard_normal((SAMPLES + 1, size)))
    if metric.kind == "counter":
        values = np.cumsum(values, axis=0)
    values[rng.random(values.shape) < MISSING] = np.nan
    return values.astype(np.float32).astype(np.float64)


def _lines(key: str, fleet: Sequence[Entity], values: Values) -> Iterator[str]:
    registry = load_registry()
    metric = registry.metric(key)
    name = metric_name(metric.name, metric.unit, metric.kind).metric
    times = [str(int(START_S + tick * STEP_S)) for tick in range(len(values))]
    for column, entity in enumerate(fleet):
        attributes = {**entity.attributes, **registry.point_attributes(key)}
        labels = ",".join(f'{label_name(n)}="{v}"' for n, v in attributes.items())
        head = f"{name}{{{labels}}}"
        for value, at in zip(values[:, column].tolist(), times, strict=True):
            if value == value:  # noqa: PLR0124 - not NaN
                yield f"{head} {value!r} {at}\n"


def _load(samples: Path, data: Path) -> float:
    """Seconds that promtool took to make a block of the file."""
    started = time.perf_counter()
    command = [str(where("promtool")), "tsdb", "create-blocks-from", "openmetrics", "--quiet"]
    subprocess.run([*command, str(samples), str(data)], check=True, timeout=600)
    return time.perf_counter() - started


def _timed(judge: Callable[[], VerdictRound], times: int) -> tuple[VerdictRound, float]:
    """The round, and the median of its seconds after one to warm up."""
    found, walls = judge(), []
    for _ in range(times):
        started = time.perf_counter()
        found = judge()
        walls.append(time.perf_counter() - started)
    return found, statistics.median(walls)


def _differences(ours: VerdictRound, theirs: VerdictRound) -> int:
    """How many entities a rule holds for in one of the two alone."""
    return sum(
        len(_holds(ours, rule) ^ _holds(theirs, rule)) for rule in range(len(ours.judgements))
    )


def _holds(judged: VerdictRound, rule: int) -> set[str]:
    entities = judged.rosters["gpu"].entities
    columns = np.flatnonzero(judged.judgements[rule].verdicts == HOLDS).tolist()
    return {entity.id for column in columns if (entity := entities[column]) is not None}


def _rss_mb(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--size", type=int, default=SIZE, help="how many GPUs")
    for name, value in run(parser.parse_args().size).items():
        print(f"{name:<38} {value:.4g}" if isinstance(value, float) else f"{name:<38} {value}")


if __name__ == "__main__":
    main()
