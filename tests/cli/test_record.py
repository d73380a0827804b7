"""What `record` writes of the readings that pass."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from otel_ofu.cli.record import RecordedSource
from otel_ofu.model import Device, Reading, Window
from otel_ofu.sources.recording import RecordingSource, RecordingWriter


class SlowSource:
    """A new window every 10 s, however often it is read."""

    name = "slow"

    def read(self, now_s: float) -> Sequence[Reading]:
        end_s = now_s // 10 * 10
        window = Window(end_s - 10, end_s)
        return [Reading(Device(uuid="GPU-1"), window, self.name, {"gpu_util": 0.5})]

    def close(self) -> None:
        """Nothing is held."""


def test_a_window_that_is_read_twice_is_written_once(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    writer = RecordingWriter(path)
    source = RecordedSource(SlowSource(), writer)
    given = [source.read(now_s) for now_s in (17, 18, 20, 30)]
    writer.close()
    assert all(given)
    recording = RecordingSource(path)
    ends_s = []
    while recording.next_s is not None:
        ends_s += [reading.window.end_s for reading in recording.read(recording.next_s)]
    assert ends_s == [10, 20, 30]
