"""Recordings of the demo, and what its job says of itself, in one report."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from otel_ofu.app.report_recordings import read_recordings, read_reports
from otel_ofu.config import Gpu
from otel_ofu.model import Owner
from otel_ofu.model.errors import ConfigError
from otel_ofu.report import MfuReport, ReportBuilder, report_of
from otel_ofu.sources.demo import DemoSource
from otel_ofu.sources.recording import RecordingHeader, RecordingWriter

START_S = 1_764_028_800.0
STEP_S = 30.0
TICKS = 70


def record(folder: Path, scenario: str, job: str, ticks: Sequence[int] = range(1, TICKS)) -> str:
    """A recording of a node of the demo; what its job says goes into reports.jsonl."""
    source = DemoSource(scenario, gpus=2, start_s=START_S, interval_s=STEP_S)
    path = folder / f"{job}-{ticks[0]}.jsonl"
    writer = RecordingWriter(path, RecordingHeader(interval_s=STEP_S))
    with (folder / "reports.jsonl").open("a") as out:
        for tick in ticks:
            now_s = START_S + tick * STEP_S
            writer.write(
                [
                    replace(
                        reading,
                        device=replace(reading.device, uuid=f"{job}/{reading.device.index}"),
                        owners=(Owner({"ofu.job.id": job}),),
                    )
                    for reading in source.read(now_s)
                ]
            )
            for said in source.job_reports(now_s):
                line = {
                    "time_s": said.time_s,
                    "job": job,
                    "mfu": said.mfu,
                    "tflops_per_gpu": said.flop_per_s / 1e12,
                    "framework": "demo",
                }
                out.write(json.dumps(line) + "\n")
    writer.close()
    return str(path)


def report(paths: Sequence[str], said: Sequence[str] = ()) -> MfuReport:
    gather = ReportBuilder()
    notes = read_recordings(gather, paths, Gpu())
    read_reports(gather, said)
    return report_of(gather, paths, notes)


def test_the_mfu_of_a_role_is_not_the_jobs(tmp_path: Path) -> None:
    paths = [record(tmp_path, "healthy", "healthy")]
    said = tmp_path / "roles.jsonl"
    line = {"time_s": START_S + 60.0, "job": "healthy", "mfu": 0.9, "role": "actor"}
    said.write_text(json.dumps(line) + "\n", "utf-8")
    (job,) = report(paths, [str(said)]).jobs
    assert job.mfu is None


def test_the_job_that_counts_too_much_is_found(tmp_path: Path) -> None:
    paths = [record(tmp_path, s, s) for s in ("healthy", "flops-miscount", "debug-flag")]
    made = report(paths, [str(tmp_path / "reports.jsonl")])
    (flagged,) = [job for job in made.jobs if job.verdict.flagged]
    assert flagged.id == "flops-miscount"
    assert flagged.ratio == pytest.approx(2.12 * 0.97, abs=0.02)
    assert flagged.verdict.reasons[0].startswith("experts in a latent space")
    for job in made.jobs:
        if job is not flagged:
            assert job.ratio == pytest.approx(0.97, abs=0.02)
    assert made.summary.lost_h > 0
    assert made.notes == []


def test_without_reports_it_says_that_nobody_has_an_mfu(tmp_path: Path) -> None:
    summary = report([record(tmp_path, "healthy", "a", range(1, 9))]).summary
    assert (summary.jobs, summary.without_mfu) == (1, 1)


def test_files_come_in_any_order_and_twice(tmp_path: Path) -> None:
    late = record(tmp_path, "healthy", "a", range(10, 20))
    early = record(tmp_path, "healthy", "a", range(1, 10))
    made = report([late, early, late])
    (job,) = made.jobs
    assert job.gpus == 2
    assert job.held_h * 3600 == pytest.approx(2 * STEP_S * 19)


def test_progress_is_told_at_each_tick(tmp_path: Path) -> None:
    told: list[tuple[str, float]] = []
    path = record(tmp_path, "healthy", "a", range(1, 4))
    read_recordings(
        ReportBuilder(), [path], Gpu(), None, lambda words, time_s: told.append((words, time_s))
    )
    assert told == [(f"{path} (1 of 1)", START_S + n * STEP_S) for n in (1, 2, 3)]


def test_a_report_without_a_job_belongs_to_the_only_one(tmp_path: Path) -> None:
    path = record(tmp_path, "healthy", "a", range(1, 4))
    said = tmp_path / "said.jsonl"
    said.write_text(f'{{"time_s": {START_S + 60}, "mfu": 0.4}}\n\n')
    assert report([path], [str(said)]).jobs[0].mfu == 0.4


def test_a_recording_without_readings_is_empty(tmp_path: Path) -> None:
    path = tmp_path / "empty.jsonl"
    RecordingWriter(path, RecordingHeader()).close()
    assert report([str(path)]).start_s is None


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (b"{", "said.jsonl:2:1: no report of a job"),
        (b"[]", "said.jsonl:2:1: no report of a job"),
        (b'{"mfu": 0.4}', "time_s"),
        (b'{"time_s": "now", "mfu": 0.4}', "time_s"),
        (b"\xff\xfe", "said.jsonl:2:1: no report of a job"),
        (b'{"time_s": 1, "job": "' + b"x" * (1 << 20) + b'"}', "no report of a job"),
    ],
)
def test_a_bad_line_is_told_with_its_place(tmp_path: Path, line: bytes, told: str) -> None:
    said = tmp_path / "said.jsonl"
    said.write_bytes(b'{"time_s": 1, "job": "a", "mfu": 0.4}\n' + line + b"\n")
    with pytest.raises(ConfigError, match=told):
        read_reports(ReportBuilder(), [str(said)])


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nothing\.jsonl: cannot be read"):
        read_reports(ReportBuilder(), [str(tmp_path / "nothing.jsonl")])
    with pytest.raises(ConfigError, match=r"nothing\.jsonl: cannot be read"):
        read_recordings(ReportBuilder(), [str(tmp_path / "nothing.jsonl")], Gpu())
