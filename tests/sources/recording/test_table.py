import gzip
import os
from pathlib import Path
from statistics import fmean

import pytest

from otel_ofu.files.installed import shipped
from otel_ofu.model import Device, Gap, GapReason, Reading, Window
from otel_ofu.model.errors import ConfigError
from otel_ofu.sources.recording import ColumnMap, RecordingWriter, TableReader, read_column_map

MAP = """\
time: {column: t_ns, unit: ns}
window_s: 1
source: rezolus
device: {uuid: GPU-1, model: NVIDIA GeForce RTX 5090}
columns:
  tensor_pct: {key: tensor_active, scale: 0.01}
  sm_clock_hz: {key: sm_clock}
  power_mw: {key: power, scale: 0.001}
"""
CSV = """\
t_ns,tensor_pct,sm_clock_hz,power_mw,unused
1774942154000000000,0,225000000,16645,a
1774942155000000000,40,2800000000,130508,b
1774942156000000000,30,2400000000,265495,c
"""
NODE = """\
time: {column: time, unit: s}
device: {vendor: nvidia}
device_columns: {uuid: gpu, index: slot}
columns: {util: {key: gpu_util}}
constants: {power_limit: 700}
"""


def column_map(tmp_path: Path, text: str = MAP) -> ColumnMap:
    path = tmp_path / "map.yaml"
    path.write_text(text)
    return read_column_map(path)


def reader(tmp_path: Path, table: str, text: str = MAP) -> TableReader:
    path = tmp_path / "t.csv"
    path.write_text(table)
    return TableReader(path, column_map(tmp_path, text))


def test_mean_ofu_of_a_table_is_what_is_computed_by_hand(tmp_path: Path) -> None:
    readings = [r for tick in reader(tmp_path, CSV).ticks() for r in tick]
    products = [r.values["tensor_active"] * r.values["sm_clock"] / 2.4e9 for r in readings]
    # (0 + 0.4 * 2.8 / 2.4 + 0.3 * 2.4 / 2.4) / 3 = (0.46667 + 0.3) / 3
    assert fmean(products) == pytest.approx(0.2555556, abs=1e-6)


def test_a_row_becomes_a_reading_in_catalogue_units(tmp_path: Path) -> None:
    second = list(reader(tmp_path, CSV.replace("130508", "130000")).ticks())[1]
    assert second == [
        Reading(
            Device(uuid="GPU-1", model="NVIDIA GeForce RTX 5090"),
            Window(1774942154.0, 1774942155.0),
            "rezolus",
            {"tensor_active": 0.4, "sm_clock": 2.8e9, "power": 130.0},
        )
    ]


def test_absent_and_impossible_cells_are_gaps(tmp_path: Path) -> None:
    table = CSV.replace("40,", " ,").replace("130508", "N/A").replace("2400000000", "-1")
    ticks = list(reader(tmp_path, table).ticks())
    assert ticks[1][0].gaps == {
        "tensor_active": Gap(GapReason.NOT_READY),
        "power": Gap(GapReason.NOT_READY, "N/A"),
    }
    assert ticks[2][0].gaps == {
        "sm_clock": Gap(GapReason.OUT_OF_RANGE, "-1 Hz; allowed: 0 to 1e+10")
    }
    assert set(ticks[1][0].values) == {"sm_clock"}


def test_the_map_says_what_counts_as_absent_and_why(tmp_path: Path) -> None:
    text = MAP + "absent: ['-']\nabsent_reason: failed\n"
    ticks = list(reader(tmp_path, CSV.replace("40,", "-,"), text).ticks())
    assert ticks[1][0].gaps == {"tensor_active": Gap(GapReason.FAILED, "-")}


def test_rows_of_one_time_are_one_tick_and_windows_follow_each_device(tmp_path: Path) -> None:
    table = "time,gpu,slot,util\n10,A,0,1\n10,B,1,0.5\n20,A,0,1\n30,A,0,1\n30,B,1,0\n"
    ticks = list(reader(tmp_path, table, NODE).ticks())
    assert [[r.device.uuid for r in tick] for tick in ticks] == [["A", "B"], ["A"], ["A", "B"]]
    spans = [[(r.window.start_s, r.window.end_s) for r in tick] for tick in ticks]
    assert spans == [[(10, 10), (10, 10)], [(10, 20)], [(20, 30), (10, 30)]]
    assert ticks[0][1].device.index == 1
    assert ticks[0][1].values == {"gpu_util": 0.5, "power_limit": 700}


def test_a_window_may_begin_at_the_epoch(tmp_path: Path) -> None:
    ticks = reader(tmp_path, "time,gpu,slot,util\n0,A,0,1\n10,A,0,1\n", NODE).ticks()
    assert [tick[0].window for tick in ticks] == [Window(0, 0), Window(0, 10)]


def test_a_last_row_that_was_cut_off_is_left_out_with_a_note(tmp_path: Path) -> None:
    table = reader(tmp_path, CSV[: CSV.index("265495")])
    assert len(list(table.ticks())) == 2
    assert table.notes == [f"{tmp_path / 't.csv'}:4: cut off; this row is left out"]


def test_blank_rows_a_bom_and_windows_line_ends_do_no_harm(tmp_path: Path) -> None:
    table = "\ufeff" + CSV.replace("\n", "\r\n") + "\r\n"
    assert len(list(reader(tmp_path, table).ticks())) == 3


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("tensor_pct", "tensor", "t.csv:1:1: no column 'tensor_pct'; columns: t_ns, tensor, sm"),
        ("unused", "tensor_pct", "t.csv:1:1: column 'tensor_pct' is there twice"),
        ("40,", "forty,", "t.csv:3:1: column 'tensor_pct': 'forty' is not a number"),
        ("1774942156", "1774942155", "t.csv:4:1: GPU-1: the time does not go on"),
        ("1774942155000000000", "", "t.csv:3:1: column 't_ns': a row without a time"),
        ("1774942155000000000", "inf", "t.csv:3:1: column 't_ns': a row without a time"),
        ("40,", "40,40,", "t.csv:3:1: 6 cells under 5 columns"),
        (CSV, "", "t.csv:1:1: no column .*columns: none"),
        ("40,", "\x00" * 200000, "t.csv:3:1: "),
    ],
)
def test_a_bad_table_is_named(tmp_path: Path, old: str, new: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        list(reader(tmp_path, CSV.replace(old, new)).ticks())


def test_a_device_that_cannot_be_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"t.csv:2:1: device .*'slot': 'first'|index"):
        list(reader(tmp_path, "time,gpu,slot,util\n1,A,first,1\n", NODE).ticks())


def test_bytes_that_are_no_text_are_named(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(CSV.encode() + b"\xff\xfe")
    with pytest.raises(ConfigError, match=r"t\.csv: cannot be read: .*invalid start byte"):
        list(TableReader(path, column_map(tmp_path)).ticks())


def test_a_table_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"away\.csv: cannot be read: No such file"):
        TableReader(tmp_path / "away.csv", column_map(tmp_path))


@pytest.mark.parametrize(
    ("old", "new", "place", "message"),
    [
        ("tensor_active", "tensor", (6, 21), "no metric 'tensor' that a source could read"),
        ("key: power", "key: ofu", (8, 19), "no metric 'ofu' that a source could read"),
        ("key: power", "key: sm_clock", (8, 19), "'sm_clock' is there twice"),
        ("uuid: GPU-1, ", "", (1, 1), "no device: give `uuid`"),
        ("uuid: GPU-1", "uuid: 7", (4, 9), "uuid: expected text, got a whole number"),
        ("unit: ns", "unit: hours", (1, 28), "hours"),
        ("window_s: 1", "window_s: 0", (2, 11), "0"),
        ("source: rezolus", "sauce: rezolus", (3, 1), "sauce"),
        ("source: rezolus", "constants: {power_limit: -1}", (3, 26), "-1 W; allowed: 0 to 100000"),
        ("source: rezolus", "device_columns: {model: m}", (4, 30), "'model' is in `device_col"),
    ],
)
def test_a_bad_map_is_named(
    tmp_path: Path, old: str, new: str, place: tuple[int, int], message: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        column_map(tmp_path, MAP.replace(old, new))
    (problem,) = caught.value.problems
    assert message in problem.message
    assert (problem.line, problem.column) == place


def test_all_mistakes_of_a_map_are_told_at_once(tmp_path: Path) -> None:
    text = MAP.replace("tensor_active", "tensor").replace("uuid: GPU-1, ", "")
    with pytest.raises(ConfigError) as caught:
        column_map(tmp_path, text)
    assert len(caught.value.problems) == 2


@pytest.mark.parametrize("path", sorted(shipped("config").glob("columns/*.yaml")), ids=str)
def test_shipped_maps_are_valid(path: Path) -> None:
    assert read_column_map(path).columns


def test_there_are_shipped_maps() -> None:
    assert (shipped("config") / "columns" / "rezolus-vllm.yaml").is_file()


@pytest.mark.parametrize(
    ("name", "words"),
    [("r.jsonl", "this is a recording, not"), ("r.jsonl.gz", r"this is a recording \(gzip\), not")],
)
def test_a_recording_read_by_a_map_is_named(tmp_path: Path, name: str, words: str) -> None:
    path = tmp_path / name
    RecordingWriter(path).close()
    with pytest.raises(ConfigError, match=rf"{name}: {words} a CSV: leave out --columns"):
        TableReader(path, column_map(tmp_path))


@pytest.mark.parametrize("packed", [gzip.compress(CSV.encode()), b"\x1f\x8bdamaged", b"\x1f\x8b"])
def test_other_gzip_is_to_be_unpacked_first(tmp_path: Path, packed: bytes) -> None:
    path = tmp_path / "t.csv.gz"
    path.write_bytes(packed)
    with pytest.raises(ConfigError, match="this is gzip, not a CSV: unpack it first"):
        TableReader(path, column_map(tmp_path))


def test_each_mistake_in_the_columns_is_told_once_at_its_line(tmp_path: Path) -> None:
    wrong = MAP.replace("scale: 0.01}", "scal: 1}").replace("key: sm_clock", "key: 5")
    wrong = wrong.replace("uuid: GPU-1", "colour: red")
    with pytest.raises(ConfigError) as caught:
        column_map(tmp_path, wrong)
    found = [(p.line, p.message.partition(";")[0]) for p in caught.value.problems]
    assert found == [
        (4, "unknown key 'colour'"),
        (6, "unknown key 'scal'"),
        (7, "expected text, got a whole number"),
    ]


def test_a_table_may_come_through_a_pipe(tmp_path: Path) -> None:
    source, sink = os.pipe()
    os.write(sink, CSV.encode())
    os.close(sink)
    try:
        assert len(list(TableReader(f"/dev/fd/{source}", column_map(tmp_path)).ticks())) == 3
    finally:
        os.close(source)
