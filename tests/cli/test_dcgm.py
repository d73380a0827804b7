"""The agent over DCGM: the real child process, the fake engine behind it."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.command import run, run_process, run_until
from tests.sources.dcgm.rig import FAKE, h100

CONFIG = """\
receivers:
  gpu:
    interval: 1s
    dcgm: {{bindings_path: {bindings}, address: '{address}'}}
    nvml: {{library: {library}}}
    scrape: {{endpoints: [{{url: 'http://127.0.0.1:9/metrics'}}]}}
"""


@pytest.fixture
def open_port() -> Iterator[str]:
    """Where the engine listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


@pytest.fixture
def engine(tmp_path: Path, open_port: str) -> dict[str, str]:
    """A host engine with two GPUs, as the environment of the agent."""
    state = tmp_path / "engine.json"
    state.write_text(json.dumps({"gpus": [h100(0), h100(1)], "listening": open_port}))
    return {"FAKE_DCGM_STATE": str(state)}


def write_config(folder: Path, bindings: Path, library: Path, address: str) -> str:
    path = folder / "c.yaml"
    path.write_text(CONFIG.format(bindings=bindings, library=library, address=address))
    return str(path)


def test_auto_takes_dcgm_when_a_host_engine_answers(
    tmp_path: Path, engine: dict[str, str], open_port: str
) -> None:
    config = write_config(tmp_path, FAKE, tmp_path / "no-driver", open_port)
    done = run_until("OFU 33.7%", tmp_path, "run", "-c", config, extra=engine)
    assert done.returncode == 0, done.stderr
    assert "host engine " in done.stderr
    assert "2 GPUs  OFU 33.7%" in done.stdout  # 0.4375 x 1410 MHz / 1830 MHz


def test_an_engine_that_sees_no_gpu_leaves_them_to_the_driver(
    tmp_path: Path, engine: dict[str, str], open_port: str, stub_library: Path
) -> None:
    state = {"gpus": [], "listening": open_port}
    Path(engine["FAKE_DCGM_STATE"]).write_text(json.dumps(state))
    config = write_config(tmp_path, FAKE, stub_library, open_port)
    extra = {**engine, "NVML_STUB": "gpus=2 gpm.5=43.75 sm_clock=1410"}
    done = run_until("OFU 33.7%", tmp_path, "run", "-c", config, extra=extra)
    assert done.returncode == 0, done.stderr
    assert "2 GPUs through NVML, 2 with GPM counters" in done.stderr
    assert "sees no GPU" in done.stderr


def test_doctor_explains_the_choice_for_each_gpu(
    tmp_path: Path, engine: dict[str, str], open_port: str, stub_library: Path
) -> None:
    config = write_config(tmp_path, FAKE, stub_library, open_port)
    done = run_process(tmp_path, "doctor", "-c", config, extra=engine)
    assert done.returncode == 0, done.stdout
    assert "this one is used" in next(x for x in done.stdout.splitlines() if "+ dcgm" in x)
    assert "not used, because dcgm takes precedence" in done.stdout
    assert done.stdout.count("+ dcgm: profiling through gpm") == 2


def test_a_check_of_dcgm_that_is_not_there_fails_and_names_what_was_tried(tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    settings = "{bindings_path: /nonexistent}"
    path.write_text(f"receivers: {{gpu: {{source: dcgm, dcgm: {settings}}}}}\n")
    done = run_process(tmp_path, "run", "--check", "-c", str(path))
    assert done.returncode == 1
    assert "dcgm: no Python bindings of DCGM" in done.stderr
    assert "/nonexistent" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("http://x:1/", "dcgm address 'http://x:1/'"),
        ("localhost:99999", "the port must be 1 to 65535"),
    ],
)
def test_an_invalid_address_of_dcgm_is_a_mistake_of_the_configuration(
    tmp_path: Path, address: str, message: str
) -> None:
    path = tmp_path / "c.yaml"
    path.write_text(f"receivers: {{gpu: {{source: dcgm, dcgm: {{address: '{address}'}}}}}}\n")
    done = run(tmp_path, "run", "-c", str(path))
    assert done.returncode == 2
    assert f"{path}:1:" in done.stderr
    assert message in done.stderr
