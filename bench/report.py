"""Claim: `otel-ofu report` over a fleet fits in memory, and what a point costs.

The fleet is 608 jobs x 512 GPUs x 1 day at 30 s: 896,532,480 GPU windows. `run()` lets a part of
it through, in the order in which it would come, and extrapolates processor time and the marks of
GPUs; the memory of the buckets of all jobs and a whole day is measured.

Three ways lead in: recordings (each window of each GPU is read and derived), observations that are
derived already, and sums by job that a server of the Prometheus family computed.
"""

from __future__ import annotations

import resource
import tempfile
import time
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

from otel_ofu.app.report_recordings import read_recordings
from otel_ofu.config import Gpu
from otel_ofu.model import Entity, Observation, Window
from otel_ofu.report import (
    GpuTime,
    ReportBuilder,
    SpeedReport,
    csv_text,
    json_text,
    page,
    report_of,
)
from otel_ofu.sources.demo import DemoSource
from otel_ofu.sources.recording import RecordingHeader, RecordingWriter

JOBS, GPUS, STEP_S, DAY_S = 608, 512, 30.0, 86400.0
WINDOWS = int(JOBS * GPUS * DAY_S / STEP_S)
START_S = 1_764_028_800.0
ROUNDS = 4
OBSERVED_JOBS = 76
"""Rounds of an eighth of the fleet (38,912 GPUs) that are let through."""

RECORDED_ROUNDS = 500


def observations(number: int) -> Iterator[Observation]:
    """A round of an eighth of the fleet."""
    end_s = START_S + (number + 1) * STEP_S
    window = Window(end_s - STEP_S, end_s)
    for job in range(OBSERVED_JOBS):
        attributes = {"ofu.job.id": f"job-{job}", "ofu.gpu.sku": "h100-sxm5"}
        values = {"ofu": 0.2 + 0.0004 * job, "flop_limit": 989.4e12, "gpu_util": 0.99}
        for gpu in range(GPUS):
            yield Observation(Entity("gpu", f"GPU-{job}-{gpu}", attributes), window, values)


def observed() -> tuple[float, float]:
    """Seconds for a window of a GPU, and bytes held for a GPU."""
    gather = ReportBuilder()
    made_s = time.process_time()
    for number in range(ROUNDS):
        for _ in observations(number):
            pass
    made_s = time.process_time() - made_s
    tracemalloc.start()
    gather.observe(observations(0))
    held = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    began_s = time.process_time()
    for number in range(1, ROUNDS + 1):
        gather.observe(observations(number))
    spent_s = time.process_time() - began_s - made_s
    return spent_s / (ROUNDS * OBSERVED_JOBS * GPUS), held / (OBSERVED_JOBS * GPUS)


def recorded() -> float:
    """Seconds for a window of a GPU: read from a file, derived, counted."""
    source = DemoSource("healthy-phases", seed=1, interval_s=STEP_S)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "node.jsonl"
        writer = RecordingWriter(path, RecordingHeader(interval_s=STEP_S))
        windows = 0
        for number in range(1, RECORDED_ROUNDS):
            readings = source.read(number * STEP_S)
            windows += len(readings)
            writer.write(readings)
        writer.close()
        began_s = time.process_time()
        read_recordings(ReportBuilder(), [str(path)], Gpu())
        return (time.process_time() - began_s) / windows


def summed() -> tuple[dict[str, float | str], ReportBuilder]:
    """All jobs and the whole day as a server sums it up, in buckets of five minutes."""
    gather = ReportBuilder(step_s=300.0)
    tracemalloc.start()
    for number in range(int(DAY_S / 300.0)):
        at_s = START_S + number * 300.0 + 150.0
        for job in range(JOBS):
            ofu = 0.2 + 0.0004 * job + 0.01 * (number % 5)
            held_s = 300.0 * GPUS
            seen = GpuTime(
                job=f"job-{job}", time_s=at_s, held_s=held_s, seen_s=held_s, done_s=ofu * held_s
            )
            gather.add(seen)
            factor = 2.12 if job % 40 == 0 else 0.95
            gather.add_report(SpeedReport(seen.job, at_s, our_mfu=factor * ofu))
    held = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    return {"buckets of 608 jobs and a day, MiB": round(held / 2**20, 1)}, gather


def written(gather: ReportBuilder) -> dict[str, float | str]:
    """What the page and the files take and weigh."""
    began_s = time.process_time()
    made = report_of(gather)
    texts = {"page": page(made), "CSV": csv_text(made), "JSON": json_text(made)}
    spent_s = time.process_time() - began_s
    if made.summary.flagged != len(range(0, JOBS, 40)):
        raise RuntimeError(f"{made.summary.flagged} jobs flagged")
    sizes = {f"{name}, MiB": round(len(text) / 2**20, 2) for name, text in texts.items()}
    return {"page, CSV and JSON of 608 jobs, s": round(spent_s, 2), **sizes}


def run() -> dict[str, float | str]:
    results, gather = summed()
    results |= written(gather)
    window_s, gpu_bytes = observed()
    file_s = recorded()
    results |= {
        "count a window of a GPU, us": round(window_s * 1e6, 2),
        "read, derive and count one from a recording, us": round(file_s * 1e6, 1),
        "608 x 512 GPUs x 1 day from recordings, core-hours (extrapolated)": round(
            file_s * WINDOWS / 3600, 1
        ),
        "the same, derived already, core-hours (extrapolated)": round(window_s * WINDOWS / 3600, 2),
        "marks of 311,296 GPUs, MiB (extrapolated)": round(gpu_bytes * JOBS * GPUS / 2**20, 1),
        "most memory of the whole benchmark, MiB": round(
            resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1
        ),
    }
    return results


if __name__ == "__main__":
    for what, value in run().items():
        print(f"{what}: {value}")
