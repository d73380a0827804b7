from __future__ import annotations

import pytest

from otel_ofu.model import Entity, Observation, Window
from otel_ofu.report import ReportBuilder, SpeedReport, report_of
from otel_ofu.report.result import Job
from tests.report.fleet import PEAK, START_S, gpu, seen


def only(gather: ReportBuilder) -> Job:
    (job,) = report_of(gather).jobs
    return job


def test_time_without_counters_is_coverage_and_not_zero() -> None:
    gather = ReportBuilder()
    for tick in range(120):
        gather.observe([seen(gpu("a", 0), tick * 30.0, 0.4), seen(gpu("a", 1), tick * 30.0, None)])
    job = only(gather)
    assert (job.gpus, job.held_h, job.seen_h) == (2, 2.0, 1.0)
    assert job.coverage == 0.5
    assert job.ofu == pytest.approx(0.4)


def test_idle_time_counts_as_zero_and_as_idle() -> None:
    gather = ReportBuilder()
    for tick in range(120):
        gather.observe(
            [
                seen(gpu("a", 0), tick * 30.0, 0.4, gpu_util=0.99),
                seen(gpu("a", 1), tick * 30.0, 0.0, gpu_util=0.0),
            ]
        )
    job = only(gather)
    assert job.ofu == pytest.approx(0.2)
    assert (job.idle_h, job.lost_h) == (1.0, 1.0)


def test_lost_hours_are_those_of_each_gpu() -> None:
    gather = ReportBuilder(target_ofu=0.5)
    for tick in range(120):
        gather.observe([seen(gpu("a", n), tick * 30.0, ofu) for n, ofu in enumerate((0.25, 0.75))])
    assert only(gather).lost_h == pytest.approx(0.5)


def test_a_window_counts_once_however_often_it_comes() -> None:
    gather = ReportBuilder()
    for _ in range(2):
        for tick in range(120):
            gather.observe([seen(gpu("a"), tick * 30.0, 0.4)])
    report = report_of(gather)
    assert report.jobs[0].held_h == 1.0
    assert "1.0 GPU-hours came more than once and were counted once." in report.notes


def test_a_few_seconds_that_came_twice_are_shown_in_seconds() -> None:
    gather = ReportBuilder()
    for start_s in (0.0, 0.0, 10.0):
        gather.observe([seen(gpu("a"), start_s, 0.4, 10.0)])
    assert "10.0 GPU-seconds came more than once and were counted once." in report_of(gather).notes


def test_windows_that_overlap_by_the_drift_of_two_clocks_are_no_repetition() -> None:
    gather = ReportBuilder()
    for tick in range(120):
        gather.observe([seen(gpu("a"), tick * 10.0 - 0.005, 0.4, 10.005)])
    assert not report_of(gather).notes


def test_overlapping_windows_count_what_is_new() -> None:
    gather = ReportBuilder()
    gather.observe([seen(gpu("a"), 0.0, 0.4, 60.0)])
    gather.observe([seen(gpu("a"), 30.0, 0.2, 60.0)])
    job = only(gather)
    assert job.held_h * 3600 == pytest.approx(90.0)
    assert job.ofu == pytest.approx((60 * 0.4 + 30 * 0.2) / 90)


@pytest.mark.parametrize("length_s", [-30.0, float("inf"), float("nan")])
def test_a_window_that_is_none_is_left_out_and_told(length_s: float) -> None:
    gather = ReportBuilder()
    gather.observe([seen(gpu("a"), 0.0, 0.4), seen(gpu("a", 1), 0.0, 0.9, length_s)])
    report = report_of(gather)
    assert report.jobs[0].ofu == pytest.approx(0.4)
    assert "1 reading left out" in report.notes[0]


def test_a_shared_gpu_counts_by_its_share() -> None:
    gather = ReportBuilder()
    for tick in range(120):
        gather.observe([seen(gpu(job), tick * 30.0, 0.4, owner_share=0.5) for job in "ab"])
    assert [job.held_h for job in report_of(gather).jobs] == [0.5, 0.5]


def test_gpus_without_a_job_are_apart_or_given_to_one() -> None:
    apart, given = ReportBuilder(), ReportBuilder(job="mine")
    for gather in (apart, given):
        gather.observe([seen(gpu(""), 0.0, 0.4, 3600.0)])
    assert report_of(apart).jobs == []
    assert report_of(apart).summary.without_job_h == 1.0
    assert only(given).id == "mine"


def test_other_entities_are_passed_over() -> None:
    gather = ReportBuilder()
    node = Entity("node", "n1", {"ofu.job.id": "a"})
    gather.observe([Observation(node, Window(START_S, START_S + 30), {"ofu": 0.5})])
    assert report_of(gather).start_s is None


def test_a_flop_rate_becomes_an_mfu_over_our_peak_whenever_it_comes() -> None:
    gather = ReportBuilder()
    gather.observe([seen(gpu("a"), tick * 30.0, 0.4) for tick in range(1)])
    gather.add_report(SpeedReport("a", START_S + 30.0, mfu=1.2, flop_per_s=0.4 * PEAK))
    job = only(gather)
    assert job.mfu == pytest.approx(0.4)
    assert job.peak_ratio == pytest.approx(3.0)
    assert not job.own_peak


def test_an_mfu_alone_is_over_the_peak_of_the_job() -> None:
    gather = ReportBuilder()
    gather.observe([seen(gpu("a"), 0.0, 0.4)])
    gather.add_report(SpeedReport("a", START_S + 30.0, mfu=0.39))
    job = only(gather)
    assert (job.mfu, job.own_peak, job.peak_ratio) == (0.39, True, None)


def four_hours(reports_s: list[float], mfu: float = 0.38) -> Job:
    gather = ReportBuilder()
    for tick in range(480):
        gather.observe([seen(gpu("a"), tick * 30.0, 0.4)])
    for at_s in reports_s:
        gather.add_report(SpeedReport("a", START_S + at_s, mfu=mfu))
    return only(gather)


def test_a_report_every_ten_minutes_is_known_all_the_time() -> None:
    job = four_hours([600.0 * n for n in range(1, 25)])
    assert job.both_s >= 3.7 * 3600
    assert job.verdict.kind == "normal"


def test_a_report_after_a_pause_does_not_speak_about_the_pause() -> None:
    job = four_hours([*(60.0 * n for n in range(1, 11)), 4 * 3600.0])
    assert job.both_s == pytest.approx(600 + 120, abs=90)


def test_a_report_weighs_as_long_as_it_speaks() -> None:
    gather = ReportBuilder(step_s=3600.0)
    gather.observe([seen(gpu("a"), 0.0, 0.4, 3600.0)])
    for at_s, mfu in ((1.0, 0.2), (601.0, 0.2), (1801.0, 0.5)):
        gather.add_report(SpeedReport("a", START_S + at_s, our_mfu=mfu))
    assert only(gather).mfu == pytest.approx((601 * 0.2 + 1200 * 0.5) / 1801)


@pytest.mark.parametrize(
    ("said", "note"),
    [
        (SpeedReport("b", START_S, mfu=0.4), "1 report left out: of a job that holds no GPU here"),
        (SpeedReport("", START_S, mfu=0.4), "1 report left out: of a job"),
        (SpeedReport("a", START_S), "or without a usable figure"),
        (SpeedReport("a", START_S, mfu=float("nan")), "or without a usable figure"),
        (SpeedReport("a", START_S, mfu=-1.0), "or without a usable figure"),
        (SpeedReport("a", 0.0, mfu=0.4), "from before or after the time shown"),
        (SpeedReport("a", float("inf"), mfu=0.4), "from before or after the time shown"),
    ],
)
def test_a_report_that_cannot_be_used_is_counted(said: SpeedReport, note: str) -> None:
    gather = ReportBuilder()
    gather.observe([seen(gpu("a"), 0.0, 0.4)])
    gather.add_report(said)
    report = report_of(gather)
    assert report.jobs[0].mfu is None
    assert report.summary.without_mfu == 1
    assert note in report.notes[0]


@pytest.mark.parametrize("target", [0.0, 1.1, float("nan")])
def test_a_target_that_is_none_is_refused(target: float) -> None:
    with pytest.raises(ValueError, match="allowed: above 0, at most 1"):
        ReportBuilder(target)
