"""A source of another package: found by its entry point, and like those built in."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from otel_ofu.app.sources import choose
from otel_ofu.config import config_from_text
from otel_ofu.model.clock import VirtualClock
from otel_ofu.model.errors import ConfigError
from otel_ofu.sources import GROUP
from tests.cli.command import run
from tests.plugin import EXAMPLE, MODULE, example_installed, installed

CONFIG = """\
receivers:
  gpu:
    source: json_file
    plugins:
      json_file: {{path: {path}}}
state_dir: {folder}
"""
NOW_S = 1_700_000_000.0


@pytest.fixture
def example(tmp_path: Path) -> Iterator[None]:
    with example_installed(tmp_path / "site"):
        yield


@pytest.fixture
def text(tmp_path: Path) -> str:
    path = tmp_path / "gpus.json"
    path.write_text(json.dumps([{"uuid": "GPU-1", "tensor_active": 0.4}]))
    return CONFIG.format(path=path, folder=tmp_path / "state")


def problems(text: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        config_from_text(text, "c.yaml")
    return [str(problem) for problem in caught.value.problems]


@pytest.mark.usefixtures("example")
def test_a_source_of_another_package_is_chosen_and_read(text: str) -> None:
    chosen = choose(config_from_text(text).receivers.gpu, VirtualClock(NOW_S))
    assert chosen.message == "1 GPU through the plugin json_file"
    (reading,) = chosen.sources["json_file"]().read(NOW_S)
    assert (reading.device.uuid, reading.values) == ("GPU-1", {"tensor_active": 0.4})
    assert reading.gaps["sm_clock"].detail == "not in the file"


@pytest.mark.usefixtures("example")
def test_the_command_line_checks_it_and_doctor_reads_it(tmp_path: Path, text: str) -> None:
    (tmp_path / "c.yaml").write_text(text)
    assert run(tmp_path, "run", "--check", "-c", "c.yaml").returncode == 0
    done = run(tmp_path, "doctor", "-c", "c.yaml")
    assert "json_file 1 GPU through the plugin json_file" in done.stdout


@pytest.mark.usefixtures("example")
def test_a_mistake_in_its_block_has_the_line_and_its_own_text() -> None:
    text = "receivers:\n  gpu:\n    source: json_file\n    plugins:\n      json_file: {file: x}\n"
    assert problems(text) == ["c.yaml:5:18: allowed: path, the JSON file to read"]


@pytest.mark.usefixtures("example")
def test_an_unknown_name_is_a_mistake_that_lists_what_there_is() -> None:
    (problem,) = problems("receivers: {gpu: {source: jsonfile}}")
    assert problem.startswith("c.yaml:1:27: unknown value 'jsonfile'; one of: auto, dcgm, demo,")
    assert problem.endswith("nvml, scrape; installed plugins: json_file")


@pytest.mark.usefixtures("example")
def test_it_is_loaded_only_when_it_is_named() -> None:
    config_from_text("receivers: {gpu: {source: demo, plugins: {json_file: {path: x}}}}")
    assert f"{MODULE}.source" not in sys.modules


def test_a_package_that_cannot_be_imported_is_a_mistake_that_names_it(tmp_path: Path) -> None:
    with installed(tmp_path / "site", {GROUP: {"broken": "no_such_module:build"}}):
        (problem,) = problems("receivers: {gpu: {source: broken}}")
    assert "'broken' of the package plugin_site cannot be loaded: ModuleNotFoundError" in problem


def test_the_example_is_short() -> None:
    assert len((EXAMPLE / MODULE / "source.py").read_text("utf-8").splitlines()) < 60
