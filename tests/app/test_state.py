"""Where the agent keeps what outlives it."""

from __future__ import annotations

from pathlib import Path

import pytest

from otel_ofu.app.state import state_dir
from otel_ofu.model.errors import OtelOfuError


def test_the_config_comes_first_and_the_folder_is_made(tmp_path: Path) -> None:
    wanted = tmp_path / "a" / "b"
    environ = {"STATE_DIRECTORY": str(tmp_path / "systemd")}
    assert state_dir(str(wanted), environ) == wanted
    assert list(wanted.iterdir()) == []


def test_then_the_folder_that_systemd_gives(tmp_path: Path) -> None:
    first, second = tmp_path / "one", tmp_path / "two"
    assert state_dir("", {"STATE_DIRECTORY": f"{first}:{second}"}) == first


def test_a_folder_that_cannot_be_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OtelOfuError, match=r"cannot be written: .*set state_dir in the config"):
        state_dir(str(tmp_path / "file" / "below"), {})
