"""Virtual time: recordings and the demo through the same code as life."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from otel_ofu.app.prepare import deriver, skus
from otel_ofu.app.replay import Replay, demo_instants, recorded_instants
from otel_ofu.config import Gpu
from otel_ofu.derive.settings import parse_reference_clock
from otel_ofu.model import Device, Observation, Reading, Window
from otel_ofu.model.errors import ConfigError
from otel_ofu.sources.demo import DemoSource
from otel_ofu.sources.recording import RecordingSource, RecordingWriter

GOING = threading.Event()


def play(source: RecordingSource, gpu: Gpu) -> list[Observation]:
    seen: list[Observation] = []
    replay = Replay(source, deriver(gpu, ""), seen.extend)
    replay.play(recorded_instants(source), 0.0, GOING)
    return seen


def recording(path: Path, values: Sequence[dict[str, float]]) -> Path:
    device = Device("GPU-1", model="NVIDIA H100 80GB HBM3")
    writer = RecordingWriter(path)
    for number, value in enumerate(values):
        window = Window(10.0 * number, 10.0 * (number + 1))
        writer.write([Reading(device, window, "nvml", value)])
    writer.close()
    return path


def test_a_recording_gives_ofu_by_the_reference_clock_of_its_model(tmp_path: Path) -> None:
    path = recording(tmp_path / "r.jsonl", [{"tensor_active": 0.5, "sm_clock": 1.83e9}] * 3)
    observations = play(RecordingSource(path), Gpu())
    assert [o.values["ofu"] for o in observations] == [0.5, 0.5, 0.5]
    assert observations[0].values["reference_clock"] == 1.83e9


def test_a_reference_clock_of_the_config_holds_for_all(tmp_path: Path) -> None:
    path = recording(tmp_path / "r.jsonl", [{"tensor_active": 0.4375, "sm_clock": 1.41e9}])
    (observation,) = play(RecordingSource(path), Gpu(reference_clock="1980MHz"))
    assert observation.values["ofu"] == pytest.approx(0.311553, abs=1e-6)
    assert observation.state("reference_clock_source") == "config"


def test_a_bad_line_ends_the_replay_with_its_place(tmp_path: Path) -> None:
    path = recording(tmp_path / "r.jsonl", [{"sm_clock": 1e9}] * 2)
    lines = path.read_text().splitlines()
    path.write_text("\n".join([*lines[:3], "{rubbish", *lines[3:]]) + "\n")
    with pytest.raises(ConfigError, match=r"r\.jsonl:4"):
        play(RecordingSource(path), Gpu())


def test_the_demo_plays_the_same_numbers_for_the_same_seed() -> None:
    def ofus() -> list[float]:
        seen: list[Observation] = []
        replay = Replay(DemoSource("healthy", seed=3, start_s=0.0), deriver(Gpu(), ""), seen.extend)
        instants = iter([*zip(range(3), demo_instants(0.0, 10.0), strict=False)])
        replay.play((now_s for _, now_s in instants), 0.0, GOING)
        return [o.values["ofu"] for o in seen]

    assert ofus() == ofus()
    assert len(ofus()) == 24


def test_a_replay_that_is_told_to_stop_stops() -> None:
    stopped = threading.Event()
    seen: list[Observation] = []

    def emit(observations: Sequence[Observation]) -> None:
        seen.extend(observations)
        stopped.set()

    replay = Replay(DemoSource("healthy", start_s=0.0), deriver(Gpu(), ""), emit)
    replay.play(demo_instants(0.0, 10.0), 0.0, stopped)
    assert len(seen) == 8


def test_a_users_sku_file_adds_models_and_its_mistakes_have_places(tmp_path: Path) -> None:
    path = tmp_path / "skus.yaml"
    path.write_text("skus:\n  h100-sxm5:\n    smz: 1\n")
    with pytest.raises(ConfigError) as caught:
        skus(str(path))
    assert str(caught.value).startswith(f"{path}:3:5: unknown key")


@pytest.mark.parametrize(
    ("text", "policy"),
    [("sku_table", "sku_table"), ("device_max", "device_max"), ("1.83GHz", 1.83e9)],
)
def test_reference_policies(text: str, policy: object) -> None:
    assert parse_reference_clock(text) == policy
