"""An agent that starts on a full disk, and one whose folder is deleted under it."""

from __future__ import annotations

import shutil
import threading
import uuid
from pathlib import Path

import pytest

from otel_ofu.app.prepare import prepare
from otel_ofu.app.state import state_dir
from otel_ofu.app.telemetry import Dependencies, Telemetry
from otel_ofu.config import ReadConfig, config_from_text
from otel_ofu.export.agent import agent_id
from otel_ofu.model import Entity, Observation, Window
from otel_ofu.model.clock import SystemClock
from tests.app.test_rules import RULE, World, names
from tests.disks import full_disk


@pytest.mark.parametrize("inodes", [False, True])
def test_it_works_in_memory_and_says_so_once_for_each_file(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, *, inodes: bool
) -> None:
    with full_disk(tmp_path / "full", inodes=inodes) as full:
        folder = state_dir(str(full), {})
        world = World(tmp_path, RULE, folder)
        world.play(7)
        assert names(world.close()) == ["ofu.finding.opened"]
    for name in ("agent-id", "baselines.sqlite", "findings.sqlite"):
        (line,) = [line for line in caplog.messages if f"/{name}:" in line]
        assert "disk full" in line


def test_a_folder_that_has_no_room_to_be_made_is_no_mistake_of_the_user(tmp_path: Path) -> None:
    with full_disk(tmp_path / "full", inodes=True) as full:
        assert state_dir(str(full / "below"), {}) == full / "below"


def test_the_id_is_then_that_of_the_host(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "agent-id.new").mkdir()
    assert uuid.UUID(agent_id(tmp_path, "node-1")) == uuid.UUID(agent_id(None, "node-1"))
    (line,) = caplog.messages
    assert line.endswith("this agent's id is made of the host's name")


@pytest.mark.parametrize(("deleted", "fate"), [(False, "kept for the next start"), (True, "lost")])
def test_what_was_not_sent_is_said_to_be_kept_only_where_it_is(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, *, deleted: bool, fate: str
) -> None:
    config = config_from_text(
        "exporters: {otlp_http: {endpoint: http://127.0.0.1:9}, console: {mode: 'off'}}"
    )
    folder = tmp_path / "state"
    shared = Dependencies(prepare(ReadConfig(config), {}), SystemClock(), folder, "n")
    telemetry = Telemetry(shared, [], threading.Event())
    telemetry.export([Observation(Entity("gpu", "1", {}), Window(0.0, 1.0), {"ofu": 0.4})])
    if deleted:
        shutil.rmtree(folder)
    telemetry.close(0.2)
    assert [m for m in caplog.messages if m.endswith(f"requests not sent: {fate}")]
    dropped = telemetry.outbox.queues["otlp_http"].stats().dropped
    assert ("shutdown" in dropped) is deleted
