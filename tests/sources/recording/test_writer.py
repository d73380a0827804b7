import json
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from otel_ofu.sources.recording import (
    RecordingError,
    RecordingHeader,
    RecordingReader,
    RecordingWriter,
    read_recording,
)
from tests.sources.recording.samples import GPU, tick


@contextmanager
def room_for(size: int) -> Iterator[None]:
    """No file of this process may grow beyond `size` bytes meanwhile, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_each_line_is_an_object_and_a_device_is_introduced_once(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    writer = RecordingWriter(
        path, RecordingHeader(host="n1", agent="0.1", start_s=5.0, interval_s=10.0)
    )
    writer.write(tick(100))
    writer.write(tick(110))
    writer.close()
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line["line"] for line in lines] == [
        "header", "device", "device", "tick", "reading", "reading", "tick", "reading", "reading",
    ]  # fmt: skip
    assert lines[0]["otel_ofu_recording"] == 1
    assert lines[1]["device"] == {
        "uuid": "GPU-1",
        "index": 0,
        "model": "NVIDIA H100 80GB HBM3",
        "host": "n1",
    }
    assert lines[4]["gaps"] == {"dram_active": ["not_supported"], "power": ["failed", "GPU lost"]}


def test_the_header_is_read_back(tmp_path: Path) -> None:
    path, header = (
        tmp_path / "r.jsonl",
        RecordingHeader(host="n1", agent="0.1", start_s=5, interval_s=10),
    )
    RecordingWriter(path, header).close()
    reader = RecordingReader(path)
    reader.close()
    assert reader.header == header


def test_a_device_whose_description_changes_is_introduced_again(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    first = tick(100)
    renamed = [type(r)(type(GPU)(uuid="GPU-1", host="n2"), r.window, r.source, {}) for r in first]
    writer = RecordingWriter(path)
    writer.write(first)
    writer.write(renamed)
    writer.close()
    assert list(read_recording(path)) == [first, renamed]


@pytest.mark.parametrize("name", ["r.jsonl", "r.jsonl.gz"])
def test_a_tick_is_on_disk_before_the_writer_is_closed(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    writer = RecordingWriter(path)
    writer.write(tick(100))
    assert list(read_recording(path)) == [tick(100)]
    writer.close()


def test_a_tick_without_readings_leaves_no_trace(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    writer = RecordingWriter(path)
    writer.write([])
    writer.close()
    assert len(path.read_text().splitlines()) == 1


def test_a_file_that_exists_is_kept_unless_replacing_is_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    path.write_text("precious")
    with pytest.raises(
        RecordingError, match="exists already; name another file, or replace it with --force"
    ):
        RecordingWriter(path)
    assert path.read_text() == "precious"
    RecordingWriter(path, overwrite=True).close()
    assert list(read_recording(path)) == []


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(RecordingError, match=r"away/r\.jsonl: cannot be written: No such file"):
        RecordingWriter(tmp_path / "away" / "r.jsonl")


def test_a_full_disk_is_told_at_the_start() -> None:
    with pytest.raises(RecordingError, match="/dev/full: cannot be written: No space left"):
        RecordingWriter("/dev/full", overwrite=True)


@pytest.mark.parametrize("name", ["r.jsonl", "r.jsonl.gz"])
def test_a_disk_that_fills_is_told_once_and_what_was_written_is_readable(
    tmp_path: Path, name: str
) -> None:
    path = tmp_path / name
    writer = RecordingWriter(path)
    writer.write(tick(100))
    with room_for(path.stat().st_size + 20):
        with pytest.raises(RecordingError, match="recording stopped: File too large"):
            writer.write(tick(110))
        writer.write(tick(120))
        writer.close()
    assert writer.lost_ticks == 2
    assert list(read_recording(path)) == [tick(100)]


def test_closing_twice_is_allowed(tmp_path: Path) -> None:
    writer = RecordingWriter(tmp_path / "r.jsonl")
    writer.close()
    writer.close()


def test_a_file_without_a_name_is_refused() -> None:
    with pytest.raises(RecordingError, match="the name of the recording is empty"):
        RecordingWriter("")
