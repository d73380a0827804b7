"""What is asked of a server, and what is made of its answers. The real one: tests/peers."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from otel_ofu.app.report_prometheus import read_prometheus, time_buckets
from otel_ofu.model.errors import OtelOfuError
from otel_ofu.report import MfuReport, ReportBuilder, report_of
from otel_ofu.rules.promql.server import Sample

START_S = 1_764_028_800.0
GATEWAY = 'host_name=""'
NODES = 'host_name!=""'


class Answers:
    """Answers a query by the first marks that all stand in it; nothing for the others."""

    def __init__(self, answers: Mapping[tuple[str, ...], list[Sample]]) -> None:
        self._answers = answers
        self.asked: list[tuple[str, float]] = []

    def query(self, promql: str, at_s: float) -> list[Sample]:
        self.asked.append((promql, at_s))
        for marks, samples in self._answers.items():
            if all(mark in promql for mark in marks):
                return samples
        return []


def of(job: str, value: float) -> Sample:
    return ({"ofu_job_id": job}, value)


def report(server: Answers, hours: float = 2.0) -> MfuReport:
    gather = ReportBuilder(step_s=300.0)
    time = time_buckets(START_S, START_S + hours * 3600.0, 300.0)
    notes = read_prometheus(gather, server, time)
    return report_of(gather, (), notes)


def test_counters_of_gpus_come_before_those_of_jobs() -> None:
    server = Answers(
        {
            ("count(last_over_time(",): [({}, 1.0)],
            ("increase(ofu_gpu_time_allocated",): [of("a", 2400.0)],
            ("increase(ofu_gpu_time_observed",): [of("a", 1200.0)],
            ("increase(ofu_gpu_time_effective",): [of("a", 480.0)],
            ("increase(ofu_gpu_time_idle",): [of("a", 600.0)],
            ("increase(ofu_job",): [of("a", 1.0)],
        }
    )
    made = report(server)
    (job,) = made.jobs
    assert (job.gpus, job.coverage) == (8, 0.5)
    assert job.ofu == pytest.approx(0.4)
    assert "Counters of GPUs" in made.notes[0]


def test_counters_of_a_gateway_come_before_those_of_nodes() -> None:
    server = Answers(
        {
            ("count(last_over_time(", GATEWAY): [({}, 1.0)],
            ("increase(ofu_job_gpu_allocated_time", GATEWAY): [of("a", 2400.0), of("b", 2400.0)],
            ("increase(ofu_job_gpu_observed_time", GATEWAY): [of("a", 1200.0), of("b", 2400.0)],
            ("increase(ofu_job_gpu_effective_time", GATEWAY): [of("a", 480.0), of("b", 480.0)],
            ("increase(ofu_job_gpu_idle_time", GATEWAY): [of("b", 600.0)],
            ("ofu_job_mfu_ratio",): [of("a", 0.848), of("ghost", 0.4)],
            ("group by (ofu_job_id, ofu_gpu_sku)",): [
                ({"ofu_job_id": "a", "ofu_gpu_sku": "h100-sxm5"}, 1.0),
                ({"ofu_job_id": "ghost", "ofu_gpu_sku": "x"}, 1.0),
            ],
        }
    )
    made = report(server)
    jobs = {job.id: job for job in made.jobs}
    assert set(jobs) == {"a", "b"}
    assert (jobs["a"].gpus, jobs["a"].coverage) == (8, 0.5)
    assert jobs["a"].ofu == pytest.approx(0.4)
    assert jobs["a"].ratio == pytest.approx(2.12)
    assert jobs["a"].about.skus == {"h100-sxm5"}
    assert jobs["b"].mfu is None
    assert jobs["b"].idle_h == pytest.approx(4.0)
    assert jobs["b"].lost_h == pytest.approx(8.0)
    assert "gateway" in made.notes[0]
    assert "24 reports left out" in made.notes[1]


def test_then_those_of_nodes() -> None:
    server = Answers(
        {
            ("count(last_over_time(", NODES): [({}, 1.0)],
            ("increase(ofu_job_gpu_allocated_time", NODES): [of("a", 2400.0)],
        }
    )
    made = report(server)
    assert made.jobs[0].coverage == 0.0
    assert "nodes" in made.notes[0]


def test_then_the_gpus_themselves_with_a_flop_rate_over_their_limit() -> None:
    server = Answers(
        {
            ("count by (ofu_job_id) (group by",): [of("a", 2400.0), of("", 300.0)],
            ("300 * count by (ofu_job_id) (avg_over_time(ofu_gpu_utilization",): [of("a", 2400.0)],
            ("300 * sum by (ofu_job_id)",): [of("a", 960.0)],
            ("ofu_job_model_flop_rate",): [of("a", 300e12)],
            ("ofu_job_reported_mfu",): [of("a", 0.3)],
            ("ofu_gpu_flop_limit", 'ofu_peak_basis="boost"'): [of("a", 1000e12)],
        }
    )
    made = report(server)
    (job,) = made.jobs
    assert [job.ofu, job.mfu] == pytest.approx([0.4, 0.3])
    assert job.peak_ratio == pytest.approx(1.0)
    assert made.summary.without_job_h == pytest.approx(2.0)
    assert "No counters of jobs" in made.notes[0]


def test_an_empty_server_gives_an_empty_report() -> None:
    server = Answers({})
    assert report(server, 0.25).start_s is None
    ends = sorted({at_s for query, at_s in server.asked if "ofu_job_mfu" in query})
    assert ends == [START_S + 300.0, START_S + 600.0, START_S + 900.0]


def test_values_that_are_no_numbers_are_left_out() -> None:
    server = Answers({("count by (ofu_job_id) (group by",): [of("a", float("nan"))]})
    assert report(server, 0.25).start_s is None


def test_a_stretch_is_whole_steps() -> None:
    made = time_buckets(START_S + 10.0, START_S + 3590.0, 300.0)
    assert (made.start_s, made.end_s, made.count) == (START_S, START_S + 3600.0, 12)
    assert time_buckets(START_S, START_S + 86400.0, None).step_s == 300.0
    assert time_buckets(START_S, START_S + 30 * 86400.0, None).step_s == 14400.0


@pytest.mark.parametrize(
    ("until_s", "step_s", "told"), [(START_S, None, "not before"), (START_S + 1e6, 60.0, "--step")]
)
def test_a_stretch_that_is_none_is_told(until_s: float, step_s: float | None, told: str) -> None:
    with pytest.raises(OtelOfuError, match=told):
        time_buckets(START_S, until_s, step_s)
