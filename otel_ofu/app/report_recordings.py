"""Recordings, and what jobs said meanwhile, into a report.

Enters: files. Leaves: what a `ReportBuilder` counted, and notes on what was left out. Files are
read one after the other, tick by tick, in the order of their first tick.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from otel_ofu.app.prepare import deriver
from otel_ofu.app.shared_gpus import derive_owned
from otel_ofu.config import Gpu
from otel_ofu.mfu.report import TERA
from otel_ofu.model.errors import ConfigError, Problem
from otel_ofu.model.validation import in_plain_words
from otel_ofu.report import ReportBuilder, SpeedReport
from otel_ofu.sources.recording import RecordingSource
from otel_ofu.sources.recording.table import ColumnMap

MAX_LINE_BYTES = 1 << 20  # what is longer is no report, and ends as a line that is cut off

Progress = Callable[[str, float], None]
"""Called with what is read and the time (Unix seconds) that it has come to."""


class ReportLine(msgspec.Struct, frozen=True):
    """A line of a file of reports: a JSON object with the members of `otel_ofu.mfu.JobReport`.

    Others than these are not looked at. One with a `role` is about the time in which that works,
    and is left out.
    """

    time_s: float
    job: str = ""
    mfu: float | None = None
    tflops_per_gpu: float | None = None
    role: str = ""


def read_recordings(
    gather: ReportBuilder,
    paths: Sequence[str],
    gpu: Gpu,
    columns: ColumnMap | None = None,
    progress: Progress = lambda _text, _time_s: None,
) -> list[str]:
    """Notes on what was left out. Raises ConfigError with file:line for a file that is none."""
    notes: list[str] = []
    starts = {path: _first_s(path, columns) for path in dict.fromkeys(paths)}
    ordered = sorted(starts, key=lambda path: starts[path])
    for count, path in enumerate(ordered, 1):
        source = RecordingSource(path, columns)
        derived = deriver(gpu, "")
        progress_text = f"{path} ({count} of {len(ordered)})"
        try:
            for time_s, tick in source.ticks():
                by_uuid = {reading.device.uuid: reading for reading in tick}
                gather.observe(
                    seen
                    for r in tick
                    for seen in derive_owned(derived, r, by_uuid.get(r.device.parent))
                )
                progress(progress_text, time_s)
        finally:
            source.close()
        notes += source.notes
    return notes


def read_reports(gather: ReportBuilder, paths: Sequence[str]) -> None:
    """After the recordings. A line without `job` belongs to the only job, if there is just one."""
    only = gather.only_job()
    for path in paths:
        try:
            with Path(path).open("rb") as file:
                number = 0
                while line := file.readline(MAX_LINE_BYTES + 1):
                    number += 1
                    if line.strip():
                        report = _report(path, number, line)
                        if not report.role:
                            gather.add_report(_speed(report, only))
        except OSError as error:
            raise ConfigError([Problem(path, 0, 0, f"cannot be read: {error.strerror}")]) from error


def _first_s(path: str, columns: ColumnMap | None) -> float:
    source = RecordingSource(path, columns)
    try:
        first_s = source.next_s
    finally:
        source.close()
    return math.inf if first_s is None else first_s


def _report(path: str, number: int, line: bytes) -> ReportLine:
    try:
        return msgspec.json.decode(line, type=ReportLine)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        reason = in_plain_words(error) if isinstance(error, msgspec.MsgspecError) else str(error)
        message = f"no report of a job: {reason}"
        raise ConfigError([Problem(path, number, 1, message)]) from error


def _speed(report: ReportLine, only: str) -> SpeedReport:
    rate = None if report.tflops_per_gpu is None else report.tflops_per_gpu * TERA
    return SpeedReport(report.job or only, report.time_s, report.mfu, rate)
