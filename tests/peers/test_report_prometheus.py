"""The queries of `otel-ofu report` on a real Prometheus: the figures of jobs that are known."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from otel_ofu.app.report_prometheus import read_prometheus, time_buckets
from otel_ofu.report import MfuReport, ReportBuilder, report_of
from otel_ofu.rules.promql.server import QueryClient
from otel_ofu.rules.settings import ServerSettings
from tests.peers.processes import Prometheus

pytestmark = pytest.mark.peer

START_S = 1_764_028_800.0
HOURS, STEP_S = 2.0, 30.0
Series = Callable[[float], float]


def load(peer: Prometheus, folder: Path, series: dict[str, Series]) -> None:
    """`series`: name and labels -> value by seconds since the start; a sample every 30 s."""
    lines: list[str] = []
    for name, value in series.items():
        family = name.partition("{")[0].removesuffix("_total")
        kind = "counter" if "_total{" in name else "gauge"
        lines.append(f"# TYPE {family} {kind}")
        lines += [
            f"{name} {value(n * STEP_S)!r} {START_S + n * STEP_S:.0f}"
            for n in range(int(HOURS * 3600 / STEP_S) + 1)
        ]
    path = folder / "samples.txt"
    path.write_text("\n".join([*lines, "# EOF", ""]))
    peer.load_openmetrics(path)


def report(peer: Prometheus) -> MfuReport:
    gather = ReportBuilder(step_s=300.0)
    time = time_buckets(START_S, START_S + HOURS * 3600.0, 300.0)
    with closing(QueryClient(ServerSettings(url=peer.url))) as server:
        notes = read_prometheus(gather, server, time)
    return report_of(gather, [peer.url], notes)


def growing(rate: float) -> Series:
    return lambda at_s: rate * at_s


def steady(value: float) -> Series:
    return lambda _at_s: value


def test_counters_of_nodes_add_up(tmp_path: Path, prometheus: Callable[..., Prometheus]) -> None:
    peer = prometheus(start=False)
    series: dict[str, Series] = {}
    for host in ("n1", "n2"):
        labels = f'{{ofu_job_id="moe",host_name="{host}",ofu_gpu_sku="h100-sxm5"}}'
        for name, rate in (
            ("allocated", 8.0),
            ("observed", 6.0),
            ("effective", 1.5348),
            ("idle", 1),
        ):
            series[f"ofu_job_gpu_{name}_time_seconds_total{labels}"] = growing(rate)
        series[f"ofu_job_mfu_ratio{labels}"] = steady(0.5427)
        series[f"ofu_gpu_utilization_ratio{labels}"] = steady(0.2558)
    load(peer, tmp_path, series)
    peer.start()
    (job,) = report(peer).jobs
    assert job.gpus == 16
    assert job.held_h == pytest.approx(16 * HOURS, rel=0.01)
    assert job.coverage == pytest.approx(0.75)
    assert job.idle_h == pytest.approx(2 * HOURS, rel=0.01)
    assert job.ratio == pytest.approx(0.5427 / 0.2558)
    assert job.verdict.kind == "over"
    assert job.about.skus == {"h100-sxm5"}


def test_without_counters_gpus_are_counted_where_they_are(
    tmp_path: Path, prometheus: Callable[..., Prometheus]
) -> None:
    peer = prometheus(start=False)
    series: dict[str, Series] = {}
    for number in range(4):
        labels = f'{{ofu_job_id="a",hw_id="GPU-{number}",ofu_gpu_sku="h100-sxm5"}}'
        if number < 3:
            series[f"ofu_gpu_utilization_ratio{labels}"] = steady(0.4)
        else:
            series[f"ofu_gpu_gap_ratio{labels}"] = steady(1.0)
        point = labels.replace("}", ',hw_type="gpu",hw_gpu_task="general"}')
        series[f"hw_gpu_utilization_ratio{point}"] = steady(0.0 if number == 3 else 0.99)
        limit = labels.replace("}", ',ofu_peak_basis="boost"}')
        series[f"ofu_gpu_flop_limit_per_second{limit}"] = steady(989.4e12)
    series['ofu_job_model_flop_rate_per_second{ofu_job_id="a"}'] = steady(0.39 * 989.4e12)
    load(peer, tmp_path, series)
    peer.start()
    made = report(peer)
    (job,) = made.jobs
    assert job.gpus == 4
    assert job.coverage == pytest.approx(0.75)
    assert job.ofu == pytest.approx(0.4)
    assert job.mfu == pytest.approx(0.39)
    assert job.idle_h == pytest.approx(HOURS)
    assert "No counters of jobs" in made.notes[0]
