import gzip
import math
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_ofu.model import Owner, Reading, Window
from otel_ofu.model.errors import ConfigError
from otel_ofu.sources.recording import RecordingReader, RecordingWriter, read_recording
from tests.properties import examples
from tests.sources.recording.samples import GPU, readings, tick

HEADER = '{"line":"header","otel_ofu_recording":1}\n'
DEVICE = '{"line":"device","number":0,"device":{"uuid":"GPU-1"}}\n'
READING = '{"line":"reading","device":0,"window":[0,10],"values":{"power":70.5}}\n'


def written(path: Path, ticks: Sequence[Sequence[Reading]]) -> Path:
    writer = RecordingWriter(path, overwrite=True)
    for one in ticks:
        writer.write(one)
    writer.close()
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("recordings")


@examples(0.4)
@given(
    st.lists(st.lists(readings(), min_size=1, max_size=3), max_size=3),
    st.sampled_from(["any.jsonl", "any.jsonl.gz"]),
)
def test_what_was_written_is_read_back_exactly(
    folder: Path, ticks: list[list[Reading]], name: str
) -> None:
    reader = RecordingReader(written(folder / name, ticks))
    assert list(reader.ticks()) == ticks
    assert reader.notes == []


def test_the_one_owner_that_older_recordings_have_is_read(tmp_path: Path) -> None:
    path = tmp_path / "old.jsonl"
    old = READING.replace('"values"', '"owner":{"ofu.job.id":"7"},"values"')
    path.write_text(HEADER + DEVICE + '{"line":"tick","readings":1}\n' + old)
    ((reading,),) = RecordingReader(path).ticks()
    assert reading.owners == (Owner({"ofu.job.id": "7"}),)


@pytest.mark.parametrize("share", ["0", "1.5", "-1"])
def test_a_share_that_is_none_is_an_error_with_its_line(tmp_path: Path, share: str) -> None:
    path = tmp_path / "bad.jsonl"
    bad = READING.replace('"values"', f'"owners":[{{"share":{share}}}],"values"')
    path.write_text(HEADER + DEVICE + '{"line":"tick","readings":1}\n' + bad)
    with pytest.raises(ConfigError, match=r"bad\.jsonl:4"):
        list(RecordingReader(path).ticks())


def complete_ticks(whole: bytes, size: int) -> int:
    """How many ticks lie wholly in the first `size` bytes, the last newline not counted."""
    ends = [n for n, line in enumerate(whole.split(b"\n")) if b'"line":"tick"' in line]
    lines = whole[:size].split(b"\n")
    full = whole.split(b"\n")[: len(lines)]
    good = len(lines) if lines[-1] == full[-1] else len(lines) - 1
    return sum(1 for start in ends if start + 2 < good)


def test_cut_off_at_any_byte_all_complete_ticks_are_read(folder: Path) -> None:
    whole = written(folder / "whole.jsonl", [tick(100), tick(110)]).read_bytes()
    header = whole.index(b"\n")
    path = folder / "cut.jsonl"
    counts = []
    for size in range(header, len(whole) + 1):
        path.write_bytes(whole[:size])
        counts.append(complete_ticks(whole, size))
        assert list(read_recording(path)) == [tick(100), tick(110)][: counts[-1]], size
    assert set(counts) == {0, 1, 2}


def test_what_was_cut_off_is_noted(folder: Path) -> None:
    path = written(folder / "noted.jsonl", [tick(100), tick(110)])
    path.write_bytes(path.read_bytes()[:-9])
    reader = RecordingReader(path)
    assert list(reader.ticks()) == [tick(100)]
    assert reader.notes == [
        f"{path}:9: cut off; this line is left out",
        f"{path}: the last tick is cut off (1 of 2 readings); left out",
    ]


def test_a_header_that_was_cut_off_is_a_clear_error(folder: Path) -> None:
    whole = written(folder / "whole.jsonl", [tick(100)]).read_bytes()
    path = folder / "cut.jsonl"
    for size in range(whole.index(b"\n")):
        path.write_bytes(whole[:size])
        with pytest.raises(ConfigError, match="not a recording of otel-ofu"):
            RecordingReader(path)


def test_compressed_and_cut_off_at_any_byte_the_ticks_before_are_read(folder: Path) -> None:
    path = folder / "small.jsonl.gz"
    ticks = [tick(100), tick(110), tick(120)]
    writer = RecordingWriter(path, overwrite=True)
    sizes = [path.stat().st_size]
    for one in ticks:
        writer.write(one)
        sizes.append(path.stat().st_size)
    writer.close()
    whole = path.read_bytes()
    cut = folder / "cut.jsonl.gz"
    for size in range(sizes[0], len(whole) + 1):
        cut.write_bytes(whole[:size])
        got = list(RecordingReader(cut).ticks())
        assert got == ticks[: len(got)]
        assert len(got) >= sum(size >= end for end in sizes[1:])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", ":1:1: not a recording of otel-ofu"),
        ("timestamp,power\n1,2\n", r"a recording of.*; a CSV needs a column map \(--columns\)$"),
        ("hello", ":1:1: not a recording of otel-ofu: the first line is not a complete header$"),
        ("hello\n", ":1:1: not a recording of otel-ofu: the first line is not a complete header$"),
        (
            "\x00,\x01\n",
            ":1:1: not a recording of otel-ofu: the first line is not a complete header$",
        ),
        ("{},5\n", ":1:1: not a recording of otel-ofu: the first line is not a complete header$"),
        ("\n", ":1:1: not a recording of otel-ofu: the first line is not a complete header$"),
        (DEVICE, ":1:1: not a recording of otel-ofu"),
        ('{"line":"header","otel_ofu_recording":2}\n', ":1:1: recording format 2; .*reads 1"),
        (HEADER + "{}\n", ":2:1: .*missing required field `line`"),
        (HEADER + '{"line":"poem"}\n', ":2:1: Invalid value 'poem'"),
        (HEADER + '{"line":"device","number":0,"device":{"model":"x"}}\n', ":2:1: .*`uuid`"),
        (HEADER + DEVICE + READING, ":3:1: a reading that no tick line announces"),
        (HEADER + '{"line":"tick","readings":1}\n' + READING, ":3:1: device 0 is not introduced"),
        (
            HEADER + DEVICE + HEADER + '{"line":"tick","readings":1}\n' + READING,
            ":5:1: device 0 is not introduced",
        ),
        (HEADER + '{"line":"tick","readings":-1}\n', ":2:1: .*>= 0"),
        (
            HEADER + '{"line":"tick","readings":2}\n{"line":"tick","readings":1}\n',
            ":3:1: a new tick, while 2 readings of the last are missing",
        ),
        (
            HEADER
            + DEVICE
            + '{"line":"tick","readings":1}\n'
            + READING.replace('"values"', '"gaps":{"power":["failed"]},"values"'),
            ":4:1: 'power' is in values and in gaps",
        ),
        (
            HEADER
            + DEVICE
            + '{"line":"tick","readings":1}\n'
            + READING.replace('"values":{"power":70.5}', '"gaps":{"power":["tired"]}'),
            r":4:1: gap of 'power' is \['tired'\]; a reason \(not_supported, ",
        ),
        (HEADER + "\x00\n", ":2:1: JSON is malformed"),
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_text(text)
    with pytest.raises(ConfigError, match=message):
        list(read_recording(path))


def test_bytes_that_are_no_text_are_named(tmp_path: Path) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_bytes(HEADER.encode() + b'{"line":"\xff"}\n')
    with pytest.raises(ConfigError, match=r"bad.jsonl:2:1: "):
        list(read_recording(path))


def test_damaged_compression_is_named(tmp_path: Path) -> None:
    path = tmp_path / "bad.jsonl.gz"
    whole = bytearray(gzip.compress(HEADER.encode() * 3))
    whole[12] ^= 0xFF
    path.write_bytes(whole)
    with pytest.raises(ConfigError, match=r"bad\.jsonl\.gz:1:1: "):
        list(read_recording(path))


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"away\.jsonl: cannot be read: No such file"):
        read_recording(tmp_path / "away.jsonl")


def test_a_folder_is_no_recording(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read: Is a directory"):
        read_recording(tmp_path)


def test_a_line_without_end_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "long.jsonl"
    path.write_bytes(HEADER.encode() + b" " * (16 * 2**20 + 2))
    with pytest.raises(ConfigError, match=":2:1: a line of more than 16 MiB"):
        list(read_recording(path))


def test_unknown_fields_are_skipped_and_unknown_metrics_left_out_with_a_note(
    tmp_path: Path,
) -> None:
    path = tmp_path / "newer.jsonl"
    reading = READING.replace('"power":70.5', '"power":70.5,"charm":1,"throttled":1')
    path.write_text(
        HEADER.replace("1}", '1,"mood":"good"}')
        + DEVICE
        + '{"line":"tick","readings":1}\n'
        + reading
        + '{"line":"tick","readings":1}\n'
        + reading
    )
    reader = RecordingReader(path)
    ticks = list(reader.ticks())
    assert ticks == [[Reading(GPU.__class__(uuid="GPU-1"), Window(0, 10), "", {"power": 70.5})]] * 2
    assert reader.notes == [
        "metric 'charm' is not known here; left out",
        "metric 'throttled' is not known here; left out",
    ]


def test_recordings_may_be_put_behind_each_other(tmp_path: Path) -> None:
    first = written(tmp_path / "a.jsonl", [tick(100)]).read_bytes()
    second = written(tmp_path / "b.jsonl", [list(reversed(tick(110)))]).read_bytes()
    both = tmp_path / "both.jsonl"
    both.write_bytes(first + second)
    assert list(read_recording(both)) == [tick(100), list(reversed(tick(110)))]


def test_numbers_that_json_lacks_survive(tmp_path: Path) -> None:
    odd = {"power": math.inf, "temperature": -math.inf, "energy": math.nan, "ofu": -0.0}
    path = written(tmp_path / "odd.jsonl", [[Reading(GPU, Window(0, 1), "nvml", odd)]])
    ((reading,),) = read_recording(path)
    assert str(reading.values) == str(odd)


def test_the_file_is_read_as_it_is_needed(tmp_path: Path) -> None:
    path = written(tmp_path / "r.jsonl", [tick(100), tick(110)])
    path.write_bytes(path.read_bytes() + b"nonsense\n")
    ticks = read_recording(path)
    assert [next(ticks), next(ticks)] == [tick(100), tick(110)]
    with pytest.raises(ConfigError, match=r"r\.jsonl:10:1: JSON is malformed"):
        next(ticks)


def test_bytes_from_anywhere_are_no_recording(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    path.write_bytes(b"\xff,\xfe\x80\n")
    with pytest.raises(ConfigError, match=r"r\.jsonl:1:1: not a recording of otel-ofu.*header$"):
        RecordingReader(path)
