"""What `otel-ofu mfu` says to numbers and files that cannot be."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.command import run
from tests.mfu.flops import models

H100 = ("--gpu", "h100-sxm5")


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "mine.json"
    path.write_text(json.dumps(models.LLAMA3_8B), "utf-8")
    return path


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (("--tokens-per-s-per-gpu", "nan", *H100), "must be above 0"),
        (("--tokens-per-s-per-gpu", "9", *H100, "--precision", "fp4"), "no tensor peak in fp4"),
        ((*H100, "--precision", "fp3"), "'fp3' (choose from 'fp64', 'tf32', 'bf16'"),
    ],
)
def test_a_run_that_cannot_be_is_one_clear_error(
    config: Path, more: tuple[str, ...], words: str
) -> None:
    done = run(config.parent, "mfu", str(config), *more)
    assert done.returncode == 2
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_a_mistake_in_a_config_names_the_file_that_was_given(config: Path) -> None:
    config.write_text(json.dumps({**models.LLAMA3_8B, "hidden_size": 1e300}), "utf-8")
    done = run(config.parent, "mfu", "mine.json")
    assert done.returncode == 2
    assert "mine.json: 'hidden_size' is 1e+300; allowed: " in done.stderr


def test_a_config_that_is_not_there_ends_with_2_as_every_file_does(tmp_path: Path) -> None:
    done = run(tmp_path, "mfu", "none.json")
    assert done.returncode == 2
    assert done.stderr == "none.json: cannot be read: No such file or directory\n"
