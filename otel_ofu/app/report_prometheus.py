"""A report from what Prometheus, Mimir, Thanos or VictoriaMetrics keep.

Enters: a server and a span of time. Leaves: what a `ReportBuilder` counted. Each bucket of time is
a few instant queries whose windows are the bucket, added up by job on the server: no more than a
number a job comes back, however many GPUs there are.

The counters of GPUs with a job (docs/metrics.md) are asked where there are any, else those of jobs,
of gateways before those of nodes; else the GPUs themselves, of which each counts for the whole of a
bucket that it is in.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from otel_ofu.catalog.prometheus_names import label_value, metric_name
from otel_ofu.catalog.registry import load_registry
from otel_ofu.model.errors import OtelOfuError
from otel_ofu.model.labels import label_name
from otel_ofu.report import GpuTime, ReportBuilder, SpeedReport
from otel_ofu.rules.promql.server import Queries

JOB = "ofu_job_id"
SKU = "ofu_gpu_sku"
MOST_BUCKETS = 2000
PICTURED = 288  # a day in steps of 5 minutes
IDLE_BELOW = 0.01

_GPU_COUNTERS = {
    "held": "gpu_time_allocated",
    "seen": "gpu_time_observed",
    "done": "gpu_time_effective",
    "idle": "gpu_time_idle",
}
_JOB_COUNTERS = {
    "held": "job_gpu_time",
    "seen": "job_observed_time",
    "done": "job_effective_time",
    "idle": "job_idle_time",
}

Progress = Callable[[str, float], None]
Values = Mapping[str, float]


@dataclass(frozen=True, slots=True)
class TimeBuckets:
    """Time in buckets: `count` of them, `step_s` each, from `start_s` (Unix seconds) on."""

    start_s: float
    step_s: float
    count: int

    @property
    def end_s(self) -> float:
        return self.start_s + self.count * self.step_s

    @property
    def window(self) -> str:
        return f"{round(self.step_s)}s"

    @property
    def whole(self) -> str:
        return f"{round(self.step_s * self.count)}s"


def time_buckets(since_s: float, until_s: float, step_s: float | None) -> TimeBuckets:
    """The buckets of a span of time; `step_s` None: as many as a picture shows.

    Raises OtelOfuError for a span that is none, or more than 2,000 steps.
    """
    if until_s <= since_s:
        raise OtelOfuError("report: --since is not before --until")
    step_s = max(1.0, round(step_s)) if step_s else _fitting(until_s - since_s)
    start_s = math.floor(since_s / step_s) * step_s
    count = math.ceil((until_s - start_s) / step_s)
    if count > MOST_BUCKETS:
        raise OtelOfuError(
            f"report: {count:,} steps of {step_s:g} s; at most {MOST_BUCKETS:,}: a longer --step"
        )
    return TimeBuckets(start_s, step_s, count)


def read_prometheus(
    gather: ReportBuilder,
    server: Queries,
    time: TimeBuckets,
    progress: Progress = lambda _text, _time_s: None,
) -> list[str]:
    """Notes on where the numbers come from. Raises QueryError as the server does not answer."""
    queries, note = _queries(server, time)
    for number in range(time.count):
        end_s = time.start_s + (number + 1) * time.step_s
        found = {name: _by_job(server, query, end_s) for name, query in queries.items()}
        _count(gather, found, end_s, time.step_s)
        progress("asking", end_s)
    for labels, _ in server.query(_skus(time), time.end_s):
        job = labels.get(JOB, "")
        if job in gather.about and SKU in labels:
            gather.describe(job, {"ofu.gpu.sku": labels[SKU]})
    return [note]


def _count(gather: ReportBuilder, found: Mapping[str, Values], end_s: float, step_s: float) -> None:
    for job, held_s in found["held"].items():
        gather.add(
            GpuTime(
                job=job,
                time_s=end_s - step_s / 2,
                held_s=held_s,
                seen_s=found["seen"].get(job, 0.0),
                done_s=found["done"].get(job, 0.0),
                idle_s=found["idle"].get(job, 0.0),
                limit=found["limit"].get(job),
            )
        )
    names = ("mfu", "reported", "rate")
    for job in dict.fromkeys(job for name in names for job in found[name] if job):
        mfu, reported, rate = (found[name].get(job) for name in names)
        gather.add_report(SpeedReport(job, end_s, mfu=reported, flop_per_s=rate, our_mfu=mfu))


def _queries(server: Queries, time: TimeBuckets) -> tuple[dict[str, str], str]:
    """What is asked in each bucket, by name, and in words where it comes from."""
    window = f"[{time.window}]"
    reported = {
        "mfu": _average("mfu", window),
        "reported": _average("mfu_reported", window),
        "rate": _average("model_flop_rate", window),
        "limit": _average("flop_limit", window),
    }
    for keys, scope, note in (
        (_GPU_COUNTERS, 'ofu_job_id!=""', "Counters of GPUs with a job."),
        (_JOB_COUNTERS, 'host_name=""', "Counters of jobs, as a gateway adds them up."),
        (
            _JOB_COUNTERS,
            'host_name!=""',
            "Counters of jobs, as the agents of nodes add them up.",
        ),
    ):
        some = f"count(last_over_time({_selector(keys['held'], scope)}[{time.whole}]))"
        if server.query(some, time.end_s):
            counted = {name: _increase(key, scope, window) for name, key in keys.items()}
            return {**counted, **reported}, note + " Lost time is that of whole jobs."
    note = "No counters of jobs: each GPU counts for the whole of a step that it is in."
    return {**_of_gpus(window, time.step_s), **reported}, note + " Lost time is that of whole jobs."


def _increase(key: str, scope: str, window: str) -> str:
    return f"sum by ({JOB}) (increase({_selector(key, scope)}{window}))"


def _of_gpus(window: str, step_s: float) -> dict[str, str]:
    ofu = f"avg_over_time({_selector('ofu')}{window})"
    names = "|".join(_name(key) for key in ("ofu", "ofu_gap", "gpu_util"))
    there = f"last_over_time({{__name__=~{_quoted(names)}}}{window})"
    idle = f"avg_over_time({_selector('gpu_util')}{window}) < {IDLE_BELOW}"
    return {
        "held": f"{step_s:g} * count by ({JOB}) (group by ({JOB}, hw_id) ({there}))",
        "seen": f"{step_s:g} * count by ({JOB}) ({ofu})",
        "done": f"{step_s:g} * sum by ({JOB}) ({ofu})",
        "idle": f"{step_s:g} * count by ({JOB}) ({idle})",
    }


def _skus(time: TimeBuckets) -> str:
    there = f"last_over_time({_selector('ofu')}[{time.whole}])"
    return f"group by ({JOB}, {SKU}) ({there})"


def _average(key: str, window: str) -> str:
    return f"avg by ({JOB}) (avg_over_time({_selector(key)}{window}))"


def _by_job(server: Queries, query: str, at_s: float) -> dict[str, float]:
    samples = server.query(query, at_s)
    return {labels.get(JOB, ""): value for labels, value in samples if math.isfinite(value)}


def _name(key: str) -> str:
    metric = load_registry().metric(key)
    return metric_name(metric.name, metric.unit, metric.kind).metric


def _selector(key: str, *matchers: str) -> str:
    attributes = load_registry().point_attributes(key)
    names = [f"{label_name(name)}={_quoted(value)}" for name, value in sorted(attributes.items())]
    return f"{_name(key)}{{{','.join([*names, *matchers])}}}"


def _quoted(text: str) -> str:
    return f'"{label_value(text)}"'


def _fitting(length_s: float) -> float:
    return next(step for step in _round_steps() if length_s / step <= PICTURED)


def _round_steps() -> Iterator[float]:
    yield from (60.0, 120.0, 300.0, 600.0, 900.0, 1800.0)
    hours = 1.0
    while True:
        yield hours * 3600.0
        hours *= 2
