"""What jobs report stands until the next report is due, and fills no memory."""

from __future__ import annotations

from otel_ofu.derive.reported import MOST_JOBS, MOST_KEYS, ReportedFigures
from otel_ofu.model.report_interval import FIRST_S, MOST_S

T0 = 1_700_000_000.0


def test_each_figure_stands_for_its_own_time() -> None:
    figures = ReportedFigures()
    for minute, mfu in ((0, 0.4), (10, 0.5), (20, 0.6)):
        figures.add("a", "mfu_reported", mfu, T0 + minute * 60)
    figures.add("a", "step_time", 3.0, T0 + 1200)
    assert figures.at(T0 + 1200) == {"a": {"mfu_reported": 0.6, "step_time": 3.0}}
    assert figures.at(T0 + 1200 + FIRST_S + 1) == {"a": {"mfu_reported": 0.6}}
    assert figures.at(T0 + 2400) == {"a": {"mfu_reported": 0.6}}
    assert figures.at(T0 + 2401) == {}


def test_an_older_figure_does_not_replace_a_newer() -> None:
    figures = ReportedFigures()
    figures.add("a", "step_time", 3.0, T0)
    figures.add("a", "step_time", 9.0, T0 - 60)
    assert figures.at(T0) == {"a": {"step_time": 3.0}}


def test_how_often_a_job_reports_outlives_its_figure() -> None:
    figures = ReportedFigures()
    for minute in (0, 20, 100):
        figures.add("a", "step_time", 3.0, T0 + minute * 60)
        figures.at(T0 + minute * 60 + 3000)
    assert figures.at(T0 + 100 * 60 + MOST_S)


def test_jobs_that_are_gone_are_forgotten() -> None:
    figures = ReportedFigures()
    figures.add("a", "step_time", 3.0, T0)
    figures.at(T0 + 2 * MOST_S + 1)
    assert len(figures) == 0


def test_after_the_clock_was_set_back_figures_of_the_future_do_not_stand() -> None:
    figures = ReportedFigures()
    figures.add("a", "step_time", 3.0, T0 + 1e6)
    assert figures.at(T0) == {}
    figures.add("a", "step_time", 4.0, T0)
    assert figures.at(T0) == {"a": {"step_time": 4.0}}


def test_made_up_names_fill_no_memory() -> None:
    figures = ReportedFigures()
    taken = [figures.add("a", f"mfu_role:{n}", 0.1, T0) for n in range(MOST_KEYS + 5)]
    assert taken.count(None) == 5
    for number in range(MOST_JOBS + 5):
        figures.add(f"job-{number}", "step_time", 3.0, T0)
    assert len(figures) == MOST_JOBS
