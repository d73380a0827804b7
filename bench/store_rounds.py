"""20 rules over 20 metrics with 90 samples, for fleets of several sizes: time, CPU and memory.

`run()` measures each size in a process of its own, so that memory is that size's alone; beside each
round stands a plain NumPy sum over as many bytes as the round's windows hold, in the same run.
`python bench/store_rounds.py [--million] [--sizes 64,10000]` prints the table.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from otel_ofu.catalog.registry import load_registry
from otel_ofu.model import Entity, Window
from otel_ofu.model.clock import VirtualClock
from otel_ofu.rules.language.language import parse_condition
from otel_ofu.rules.numpy.engine import NumpyEngine
from otel_ofu.rules.numpy.samples import retention_for
from otel_ofu.rules.verdicts import Condition
from otel_ofu.store import Store

SIZES = (64, 10_000, 100_000)
MILLION = 1_000_000
STEP_S = 10.0
SAMPLES = 90
START_S = 1_800_000_000.0
GPUS_A_NODE = 8
GPUS_A_JOB = 64
MISSING = 0.01
ROUNDS = 7

METRICS = (
    "ofu",
    "tensor_active",
    "clock_factor",
    "sm_active",
    "sm_occupancy",
    "dram_active",
    "gpu_util",
    "sm_clock",
    "mem_clock",
    "power",
    "temperature",
    "mem_temperature",
    "mem_used",
    "pcie_tx",
    "pcie_rx",
    "nvlink_tx",
    "nvlink_rx",
    "fp32_active",
    "energy",
    "throttle_time:thermal",
)

_STRAGGLER = (
    "(avg(tensor_active, 5m) - peers.median(avg(tensor_active, 5m)))"
    " > 5 * 1.4826 * peers.mad(avg(tensor_active, 5m))"
    " and avg(sm_clock, 5m) < 95% * peers.median(avg(sm_clock, 5m))"
)
RULES = (
    "avg(ofu, 10m) < 15% and avg(gpu_util, 10m) > 90%",
    "avg(dram_active, 10m) > 60%",
    "avg(nvlink_tx, 10m) + avg(nvlink_rx, 10m) > 300e9",
    "avg(sm_active, 10m) > 80% and avg(sm_occupancy, 10m) < 20%",
    "increase(throttle_time:thermal, 10m) > 60s",
    "avg(sm_clock, 5m) < 90% * peers.median(avg(sm_clock, 5m))",
    _STRAGGLER,
    "max(gpu_util, 15m) < 5% and avg(mem_used, 15m) > 1e9",
    "avg(ofu, 5m) < 50% * avg(ofu, 5m offset 9m)",
    "max(temperature, 5m) > 85",
    "max(mem_temperature, 5m) > 95",
    "rate(energy, 5m) > 690",
    "stddev(ofu, 15m) > 20%",
    "quantile(0.95, power, 15m) > 690",
    "ofu > 1",
    "min(sm_clock, 5m) < 1e9 and avg(power, 5m) < 300",
    "avg(pcie_tx, 5m) + avg(pcie_rx, 5m) > 40e9",
    "avg(fp32_active, 10m) > 50%",
    "avg(clock_factor, 5m) < 80% and avg(mem_clock, 5m) > 1e9",
    "count(ofu, 5m) < 15",
)


def run(sizes: Sequence[int] = SIZES) -> dict[str, float | str]:
    """All sizes; keys end in the unit: `10000.round_ms`, `10000.rss_mb`, ..."""
    table: dict[str, float | str] = {"numpy": np.__version__, "rules": len(RULES)}
    for size in sizes:
        command = [sys.executable, __file__, "--measure", str(size)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        table |= {f"{size}.{name}": value for name, value in json.loads(done.stdout).items()}
    return table


def measure(size: int) -> dict[str, float]:
    """One size, in this process."""
    with tempfile.TemporaryDirectory(prefix="ofu-bench-") as folder:
        return _measure(size, Path(folder))


def _measure(size: int, folder: Path) -> dict[str, float]:
    registry = load_registry()
    conditions = [Condition(parse_condition(text, "gpu", registry)) for text in RULES]
    retention = retention_for([q.expression for q in conditions], STEP_S)
    clock = VirtualClock(START_S)

    def opened(state_dir: Path | None) -> Store:
        return Store(registry, retention, step_s=STEP_S, state_dir=state_dir, clock=clock)

    rounds = _rounds(opened(None), clock, (conditions, size))
    return rounds | _restart(opened, clock, folder, (conditions, size))


def _rounds(
    store: Store, clock: VirtualClock, what: tuple[list[Condition], int]
) -> dict[str, float]:
    """Ingest and rounds in memory."""
    conditions, size = what
    ingest_s = _fill(store, clock, size)
    at_s = clock.now_s()
    engine = NumpyEngine(store)
    round_s, cpu_s = _timed(lambda: engine.round(conditions, at_s), ROUNDS)
    rss_mb = _rss_mb()
    more = conditions + _thresholds(200)
    more_s, _ = _timed(lambda: engine.round(more, at_s), 3)
    plain_s, _ = _timed(lambda: _plain_sums(store, at_s), 3)
    return {
        "round_ms": round_s * 1e3,
        "round_cpu_ms": cpu_s * 1e3,
        "rss_mb": rss_mb,
        "peak_rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "plain_sums_ms": plain_s * 1e3,
        "200_more_rules_ms": (more_s - round_s) * 1e3,
        "ingest_mpoints_s": size * len(METRICS) / ingest_s / 1e6,
    }


def _restart(
    opened: Callable[[Path | None], Store],
    clock: VirtualClock,
    folder: Path,
    what: tuple[list[Condition], int],
) -> dict[str, float]:
    """The same on a memory-mapped store: write, close, open again, first round."""
    conditions, size = what
    clock.set(START_S)
    store = opened(folder)
    _fill(store, clock, size)
    store.close()
    del store
    started = time.perf_counter()
    store = opened(folder)
    opened_s = time.perf_counter() - started
    NumpyEngine(store).round(conditions, clock.now_s())
    first_s = time.perf_counter() - started - opened_s
    store.close()
    return {"reopen_ms": opened_s * 1e3, "first_round_ms": first_s * 1e3}


def _fill(store: Store, clock: VirtualClock, size: int) -> float:
    """Writes all samples; the mean seconds that one tick of all metrics took."""
    rng = np.random.default_rng(7)
    columns = store.admit(_fleet(size), Window(START_S - STEP_S, START_S))
    levels = {key: _level(key) for key in METRICS}
    spent_s = 0.0
    for tick in range(SAMPLES + 1):
        clock.set(START_S + tick * STEP_S)
        noise = 1 + 0.05 * rng.standard_normal(size)
        noise[rng.random(size) < MISSING] = np.nan
        started = time.perf_counter()
        for key in METRICS:
            grows = key in {"energy", "throttle_time:thermal"}
            values = levels[key] * (tick + 0.1 * noise if grows else noise)
            store.write_columns("gpu", key, clock.now_s(), columns, values)
        spent_s += time.perf_counter() - started
    return spent_s / (SAMPLES + 1)


def _level(key: str) -> float:
    match key:
        case "sm_clock" | "mem_clock":
            return 1.6e9
        case "power" | "energy":
            return 650.0 if key == "power" else 6_500.0
        case "temperature" | "mem_temperature":
            return 60.0
        case "mem_used" | "pcie_tx" | "pcie_rx" | "nvlink_tx" | "nvlink_rx":
            return 20e9
        case _:
            return 0.4


def _fleet(size: int) -> list[Entity]:
    return [
        Entity(
            "gpu",
            f"GPU-{i:08x}",
            {
                "host.name": f"node-{i // GPUS_A_NODE}",
                "ofu.job.id": f"job-{i // GPUS_A_JOB}",
                "ofu.gpu.sku": "h100-sxm",
            },
        )
        for i in range(size)
    ]


def _thresholds(count: int) -> list[Condition]:
    """Rules over windows that the 20 rules have already."""
    registry = load_registry()
    texts = [f"avg(ofu, 10m) < {i / 10}% and avg(gpu_util, 10m) > 90%" for i in range(count)]
    return [Condition(parse_condition(text, "gpu", registry)) for text in texts]


def _plain_sums(store: Store, at_s: float) -> None:
    """What the memory allows at best: every metric's last 60 samples, summed."""
    for key in METRICS:
        for part in store.block("gpu", key, at_s - 600.0, at_s).parts:
            part.sum(axis=0)


def _timed(work: Callable[[], object], times: int) -> tuple[float, float]:
    """Median seconds of a call and of its CPU, after one to warm up."""
    work()
    walls, cpus = [], []
    for _ in range(times):
        wall, cpu = time.perf_counter(), time.process_time()
        work()
        walls.append(time.perf_counter() - wall)
        cpus.append(time.process_time() - cpu)
    return statistics.median(walls), statistics.median(cpus)


def _rss_mb() -> float:
    status = Path("/proc/self/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--measure", type=int, help="one size in this process, as JSON")
    parser.add_argument("--million", action="store_true", help="a million GPUs as well")
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)))
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measure(options.measure)))
        return
    sizes = [int(size) for size in options.sizes.split(",")]
    for name, value in run([*sizes, MILLION] if options.million else sizes).items():
        print(f"{name:<28} {value:.4g}" if isinstance(value, float) else f"{name:<28} {value}")


if __name__ == "__main__":
    main()
