from pathlib import Path

import pytest

from otel_ofu.model.clock import VirtualClock
from otel_ofu.model.errors import ConfigError
from otel_ofu.sources.demo import DemoSource
from otel_ofu.sources.recording import RecordingSource, RecordingWriter, read_column_map
from tests.sources.recording.samples import tick


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "r.jsonl"
    writer = RecordingWriter(path)
    for end_s in (100, 110, 120):
        writer.write(tick(end_s))
    writer.close()
    return path


def test_the_recording_drives_the_clock_of_a_replay(path: Path) -> None:
    source, clock, seen = RecordingSource(path), VirtualClock(), []
    while (now_s := source.next_s) is not None:
        clock.set(now_s)
        seen.append((clock.now_s(), source.read(now_s)))
    assert seen == [(100, tick(100)), (110, tick(110)), (120, tick(120))]
    assert source.read(1000) == []


def test_a_read_before_the_time_gives_nothing_and_loses_nothing(path: Path) -> None:
    source = RecordingSource(path)
    assert source.read(99.9) == []
    assert source.read(100) == tick(100)
    assert source.read(105) == []


def test_a_late_read_catches_up_in_order(path: Path) -> None:
    assert RecordingSource(path).read(115) == [*tick(100), *tick(110)]


def test_ticks_go_on_where_reading_stopped(path: Path) -> None:
    source = RecordingSource(path)
    source.read(100)
    assert list(source.ticks()) == [(110, tick(110)), (120, tick(120))]
    assert source.next_s is None


def test_a_closed_source_has_nothing_left(path: Path) -> None:
    source = RecordingSource(path)
    source.read(100)
    source.close()
    source.close()
    assert source.next_s is None


def test_the_end_of_a_recording_that_was_cut_off_is_noted(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-5])
    source = RecordingSource(path)
    assert [now_s for now_s, _ in source.ticks()] == [100, 110]
    assert "cut off" in source.notes[0]


def test_a_table_is_replayed_by_its_map(tmp_path: Path) -> None:
    table, columns = tmp_path / "t.csv", tmp_path / "map.yaml"
    table.write_text("time,util\n10,1\n20,0.5\n")
    columns.write_text(
        "time: {column: time, unit: s}\ndevice: {uuid: A}\ncolumns: {util: {key: gpu_util}}\n"
    )
    source = RecordingSource(table, read_column_map(columns))
    assert [(t, r[0].values["gpu_util"]) for t, r in source.ticks()] == [(10, 1), (20, 0.5)]


def test_a_table_without_a_map_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="a CSV needs a column map"):
        RecordingSource(tmp_path / "t.csv")


def test_a_recorded_demo_replays_as_it_was(tmp_path: Path) -> None:
    demo, path = DemoSource("thermal"), tmp_path / "demo.jsonl.gz"
    ticks = [list(demo.read(10.0 * n)) for n in range(1, 40)]
    writer = RecordingWriter(path)
    for one in ticks:
        writer.write(one)
    writer.close()
    assert [list(r) for _, r in RecordingSource(path).ticks()] == ticks
