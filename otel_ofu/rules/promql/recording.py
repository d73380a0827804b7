"""Figures of jobs as recording rules: the counters of GPUs added up by a ruler, with no gateway.

Enters: the registry and a target. Leaves: YAML that passes `promtool check rules`. A counter begins
with 0 and stays for minutes after its job, so that `increase` finds all of it.
"""

from __future__ import annotations

from collections.abc import Iterator

import yaml

from otel_ofu.catalog.prometheus_names import metric_name
from otel_ofu.catalog.registry import Registry
from otel_ofu.rules.promql.ruler import Target, comment, framed
from otel_ofu.rules.promql.vectors import duration, number

JOB = "ofu_job_id"
# Starting values: five scrapes of a minute; two evaluations lie within the time that a counter
# stays after its job.
WINDOW_S = 300.0
INTERVAL_S = 60.0
COUNTERS = ("allocated", "observed", "effective", "idle", "below_target")
_HEAD = (
    "Written by otel-ofu. Figures of jobs from the counters that each agent has for its GPUs, on "
    "any Prometheus that scrapes the agents or takes their OTLP; no gateway is needed. For another "
    "time T, such as all of a job: sum by (ofu_job_id) "
    "(increase(ofu_gpu_time_effective_seconds_total[T])) over the same of "
    "ofu_gpu_time_observed_seconds_total."
)


def export_recordings(to: Target, registry: Registry) -> str:
    """The rules as a file for `to`; they overwrite no series that otel-ofu exports itself."""
    rules = [{"record": name, "expr": text} for name, text in recordings(registry)]
    written = yaml.safe_dump(
        [{"name": "otel-ofu-jobs", "interval": duration(INTERVAL_S), "rules": rules}],
        sort_keys=False,
        width=float("inf"),
    )
    return comment(_HEAD) + framed([written], to, "otel-ofu-jobs")


def recordings(registry: Registry) -> Iterator[tuple[str, str]]:
    """Name and expression of each rule."""
    window = duration(WINDOW_S)
    for counter in COUNTERS:
        text = f"sum by ({JOB}) ({_increase(registry, counter, window)})"
        yield f"ofu_job:gpu_time_{counter}_seconds:increase{window}", text

    def recorded(counter: str) -> str:
        return f"ofu_job:gpu_time_{counter}_seconds:increase{window}"

    yield (f"ofu_job:ofu:ratio{window}", f"{recorded('effective')} / ({recorded('observed')} > 0)")
    yield (
        f"ofu_job:coverage:ratio{window}",
        f"{recorded('observed')} / ({recorded('allocated')} > 0)",
    )
    yield f"ofu_job:gpus:avg{window}", f"{recorded('allocated')} / {number(WINDOW_S)}"
    gpu = (
        f"{_increase(registry, 'effective', window)}"
        f" / ({_increase(registry, 'observed', window)} > 0)"
    )
    for statistic in ("min", "max"):
        yield f"ofu_job:gpu_ofu:{statistic}{window}", f"{statistic} by ({JOB}) ({gpu})"
    yield f"ofu_job:gpu_ofu:median{window}", f"quantile by ({JOB}) (0.5, {gpu})"


def _increase(registry: Registry, counter: str, window: str) -> str:
    metric = registry.metric(f"gpu_time_{counter}")
    name = metric_name(metric.name, metric.unit, metric.kind).metric
    return f'increase({name}{{{JOB}!=""}}[{window}])'
