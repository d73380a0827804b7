"""The file holds what the Collector's file exporter would write, within its size."""

from __future__ import annotations

import json
import resource
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord, ResourceLogs, ScopeLogs

from otel_ofu.export.file import FileExporter, FileOptions, json_line
from otel_ofu.export.request import pack
from tests.export.samples import START_S, body, encoder, gpu, seen


@contextmanager
def exporter(path: Path, max_bytes: int = 1 << 30, backups: int = 3) -> Iterator[FileExporter]:
    with closing(FileExporter(FileOptions(path, max_bytes, backups))) as made:
        yield made


def lines(path: Path) -> list[object]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_line_is_otlp_json_as_the_collector_writes_it() -> None:
    values = {"flop_count": 5e15}
    (made,) = encoder().encode([seen(gpu(index=3), 1, values, {"flop_count": START_S})])
    tree = json.loads(json_line(made))
    (resource_metrics,) = tree["resourceMetrics"]
    assert {"key": "index", "value": {"intValue": "3"}} in resource_metrics["resource"][
        "attributes"
    ]
    (metric,) = resource_metrics["scopeMetrics"][0]["metrics"]
    assert metric["sum"] == {
        "dataPoints": [
            {
                "attributes": [
                    {"key": "hw.id", "value": {"stringValue": "GPU-1"}},
                    {"key": "ofu.precision", "value": {"stringValue": "bf16"}},
                ],
                "startTimeUnixNano": "1700000000000000000",
                "timeUnixNano": "1700000010000000000",
                "asDouble": 5e15,
            }
        ],
        "aggregationTemporality": 2,
        "isMonotonic": True,
    }


def test_ids_are_hexadecimal() -> None:
    record = LogRecord(trace_id=bytes(range(16)), span_id=b"\xff" * 8, event_name="e")
    logs = ResourceLogs(scope_logs=[ScopeLogs(log_records=[record])])
    line = json_line(pack(ExportLogsServiceRequest(resource_logs=[logs])))
    (found,) = json.loads(line)["resourceLogs"][0]["scopeLogs"][0]["logRecords"]
    assert (found["traceId"], found["spanId"]) == ("000102030405060708090a0b0c0d0e0f", "f" * 16)


def test_each_body_is_one_line_and_an_old_file_is_continued(tmp_path: Path) -> None:
    path = tmp_path / "new" / "out.jsonl"
    for _ in range(2):
        with exporter(path) as made:
            made.export([body(0.1), body(0.2)])
            assert made.sent == 2
    assert len(lines(path)) == 4


def test_a_full_file_is_moved_away_and_the_oldest_goes(tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    size = len(json_line(body(0.125)))
    with exporter(path, max_bytes=2 * size, backups=2) as made:
        for _ in range(9):
            made.export([body(0.125)])
    assert sorted(p.name for p in tmp_path.iterdir()) == ["out.jsonl", "out.jsonl.1", "out.jsonl.2"]
    sizes = [len(lines(path.with_name(f"out.jsonl{end}"))) for end in ("", ".1", ".2")]
    assert sizes == [1, 2, 2]


def test_without_backups_a_full_file_begins_anew_and_a_long_line_is_still_written(
    tmp_path: Path,
) -> None:
    with exporter(tmp_path / "out.jsonl", max_bytes=1, backups=0) as made:
        made.export([body(0.1), body(0.2)])
    assert [p.name for p in tmp_path.iterdir()] == ["out.jsonl"]
    assert len(lines(tmp_path / "out.jsonl")) == 1


def test_a_first_line_that_is_too_long_leaves_no_empty_file_behind(tmp_path: Path) -> None:
    with exporter(tmp_path / "out.jsonl", max_bytes=1) as made:
        made.export([body(0.1)])
    assert [p.name for p in tmp_path.iterdir()] == ["out.jsonl"]


def test_a_full_disk_is_counted_said_once_and_leaves_no_half_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "out.jsonl"
    said: list[tuple[str, str, int]] = []
    with closing(FileExporter(FileOptions(path), "file", lambda *s: said.append(s))) as made:
        made.export([body(0.1)])
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 10, limits[1]))
        try:
            made.export([body(0.2), body(0.3)])
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        made.export([body(0.4)])
        assert (made.sent, made.dropped) == (2, 2)
    assert len(lines(path)) == 2
    assert [outcome for _, outcome, _ in said] == ["sent", "dropped", "dropped", "sent"]
    assert len(caplog.records) == 2
    assert "points are dropped meanwhile" in caplog.messages[0]
    assert caplog.messages[1].endswith("can be written again")


def test_a_file_that_cannot_be_made_is_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=f"^{tmp_path}: Is a directory"):
        FileExporter(FileOptions(tmp_path))
