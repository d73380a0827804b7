from __future__ import annotations

import math

import pytest

from otel_ofu.report import ReportBuilder, SpeedReport, report_of
from tests.report.fleet import START_S, gathered, gpu, seen

HEALTHY: dict[str, tuple[float, float | None]] = {
    f"job-{n}": (0.2 + 0.05 * n, 0.97 * (0.2 + 0.05 * n)) for n in range(6)
}


def test_the_cases_of_the_paper_are_found_and_leaving_them_out_mends_r() -> None:
    jobs = {**HEALTHY, "moe": (0.2558, 0.5427), "hybrid": (0.1556, 0.2451)}
    report = report_of(gathered(jobs))
    flagged = {job.id: job for job in report.jobs if job.verdict.flagged}
    assert set(flagged) == {"moe", "hybrid"}
    assert flagged["moe"].ratio == pytest.approx(2.12, abs=0.005)
    assert flagged["hybrid"].ratio == pytest.approx(1.575, abs=0.005)
    assert report.summary.every.r is not None
    assert report.summary.every.r < 0.7
    assert report.summary.kept.r == pytest.approx(1.0)
    assert report.summary.kept.error == pytest.approx(0.03 * 0.325)


def test_jobs_that_say_nothing_are_counted_and_not_compared() -> None:
    summary = report_of(gathered({**HEALTHY, "silent": (0.4, None)})).summary
    assert (summary.jobs, summary.without_mfu, summary.every.jobs) == (7, 1, 6)


def test_ofu_and_mfu_are_compared_over_the_same_time() -> None:
    """An hour of work that reports, then an hour of idling that does not."""
    gather = ReportBuilder()
    for tick in range(240):
        working = tick < 120
        gather.observe([seen(gpu("a"), tick * 30.0, 0.4 if working else 0.0)])
        if working:
            gather.add_report(SpeedReport("a", START_S + tick * 30.0 + 30.0, our_mfu=0.39))
    (job,) = report_of(gather).jobs
    assert job.ofu == pytest.approx(0.2)
    assert job.ofu_then == pytest.approx(0.4)
    assert job.verdict.kind == "normal"
    assert job.both_s == 3600.0


def test_an_mfu_without_any_ofu_is_not_judged() -> None:
    gather = ReportBuilder()
    gather.observe([seen(gpu("a"), 0.0, None)])
    gather.add_report(SpeedReport("a", START_S + 30.0, our_mfu=0.4))
    report = report_of(gather)
    assert report.jobs[0].verdict.kind == "unseen"
    assert (report.summary.without_mfu, report.summary.every.jobs) == (0, 0)


def test_an_ofu_of_zero_gives_no_ratio() -> None:
    (job,) = report_of(gathered({"a": (0.0, 0.4)})).jobs
    assert job.ratio is None
    assert job.verdict.kind == "unseen"


def test_jobs_stand_by_their_lost_hours() -> None:
    report = report_of(gathered({"a": (0.3, None), "b": (0.1, None), "c": (0.5, None)}))
    assert [job.id for job in report.jobs] == ["b", "a", "c"]
    assert report.jobs[0].lost_h == pytest.approx(16 * 0.75)
    assert report.jobs[2].lost_h == 0


def test_the_mean_over_all_is_weighted_by_gpu_time() -> None:
    gather = ReportBuilder()
    gather.observe([seen(gpu("a"), 0.0, 0.6, 900.0)])
    gather.observe([seen(gpu("b", n), 0.0, 0.2, 900.0) for n in range(3)])
    summary = report_of(gather).summary
    assert summary.ofu == pytest.approx(0.3)
    assert summary.held_h == 1.0


def test_nothing_gives_a_report_of_nothing() -> None:
    report = report_of(ReportBuilder())
    assert (report.jobs, report.start_s, report.summary.ofu) == ([], None, None)
    assert report.summary.every.r is None


def test_series_have_no_value_where_there_was_none() -> None:
    gather = ReportBuilder()
    gather.observe([seen(gpu("a"), 0.0, 0.4)])
    gather.observe([seen(gpu("a"), 90.0, 0.5)])
    (job,) = report_of(gather).jobs
    assert [None if math.isnan(v) else v for v in job.series.ofu] == [0.4, None, None, 0.5]
    assert (job.start_s, job.end_s) == (START_S, START_S + 120.0)
