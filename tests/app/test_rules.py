"""Rules at work in the agent: findings become events; mistakes in files change nothing."""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest

from otel_ofu.app.pipeline import Pipeline
from otel_ofu.app.prepare import configured_rules, deriver, prepare
from otel_ofu.app.replay import Replay, demo_instants
from otel_ofu.app.rules import base_interval_s
from otel_ofu.app.telemetry import Dependencies, Telemetry
from otel_ofu.config import Config, ReadConfig, config_from_text
from otel_ofu.model import Entity, Observation, Window
from otel_ofu.model.clock import SystemClock, VirtualClock
from otel_ofu.sources.demo import DemoSource

RULE = """\
groups:
  - name: test
    interval: 30s
    rules:
      - alert: Low
        each: gpu
        expr: avg(ofu, 2m) < 30%
        for: 1m
        labels: {severity: warning}
        annotations: {summary: "{{ $labels.hw_id }}: OFU is {{ $value | percent }}"}
"""


class World:
    """A pipeline over the demo on virtual time, writing OTLP JSON lines."""

    def __init__(self, folder: Path, rules: str, state: Path | None = None) -> None:
        self.folder = folder
        self.rule_file = folder / "rules.yaml"
        self.rule_file.write_text(rules)
        self.config = config_from_text(
            f"rules: {{paths: ['{self.rule_file}']}}\n"
            f"exporters: {{file: {{path: '{folder}/out.jsonl'}}, console: {{mode: 'off'}}}}\n"
        )
        self.clock = VirtualClock()
        self.words: list[str] = []
        shared = Dependencies(prepare(ReadConfig(self.config), {}), SystemClock(), state, "node-1")
        telemetry = Telemetry(shared, [], threading.Event())
        self.pipeline = Pipeline(shared, telemetry, self.words.append, self.clock)

    def play(self, minutes: float, from_s: float = 0.0) -> None:
        """The demo from `from_s` on, in which the flag appears after 3 minutes."""
        source = DemoSource("debug-flag", gpus=4, start_s=0.0)
        replay = Replay(
            source,
            deriver(self.config.receivers.gpu, ""),
            self.pipeline.take,
            self.clock,
            self.pipeline.judge,
        )
        instants = takewhile(lambda now_s: now_s <= 60 * minutes, demo_instants(from_s, 10.0))
        replay.play(instants, 0.0, threading.Event())

    def close(self) -> list[dict[str, Any]]:
        """The log records that left."""
        self.pipeline.close(1.0)
        lines = (self.folder / "out.jsonl").read_text().splitlines()
        return [
            record
            for line in lines
            for resource in json.loads(line).get("resourceLogs", [])
            for record in resource["scopeLogs"][0]["logRecords"]
        ]


def names(records: Sequence[dict[str, Any]]) -> list[str]:
    return [record["eventName"] for record in records]


def test_a_finding_leaves_as_an_event_with_everything_essential_in_attributes(
    tmp_path: Path,
) -> None:
    world = World(tmp_path, RULE)
    world.play(7)
    records = world.close()
    assert names(records) == ["ofu.finding.opened"]  # four GPUs of one job are one incident
    attributes = {a["key"]: a["value"] for a in records[0]["attributes"]}
    assert attributes["ofu.rule.id"]["stringValue"] == "Low"
    assert attributes["ofu.finding.state"]["stringValue"] == "firing"
    assert attributes["ofu.finding.count"]["intValue"] == "4"
    assert attributes["ofu.evidence.coverage"]["doubleValue"] == 1
    assert records[0]["severityNumber"] == 13
    (card,) = world.words
    assert "GPU-dem00000-0000-4000-8000-000000000000: OFU is" in card


def test_an_open_finding_is_a_metric_of_its_gpu(tmp_path: Path) -> None:
    world = World(tmp_path, RULE)
    world.play(7)
    world.close()
    text = (tmp_path / "out.jsonl").read_text()
    assert '"ofu.finding.active"' in text


def test_a_changed_rule_file_is_read_again(tmp_path: Path) -> None:
    world = World(tmp_path, RULE.replace("30%", "1%"))
    rules = world.pipeline.rules
    assert rules is not None
    assert not rules.poll()
    world.rule_file.write_text(RULE + "\n")
    assert rules.poll()
    world.play(7)
    assert names(world.close()) == ["ofu.finding.opened"]


def test_a_bad_file_leaves_the_old_rules_at_work_and_is_told_with_its_places(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    world = World(tmp_path, RULE)
    rules = world.pipeline.rules
    assert rules is not None
    world.rule_file.write_text(RULE.replace("avg(ofu, 2m)", "avg(oofu, 2m)"))
    assert not rules.poll()
    assert "rules not reloaded, the old ones stay:" in caplog.text
    assert f"{world.rule_file}:7:" in caplog.text
    assert [rule.name for rule in rules.rules if rule.name == "Low"] == ["Low"]
    world.play(7)
    assert names(world.close()) == ["ofu.finding.opened"]


def test_findings_survive_a_restart_without_being_told_twice(tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.mkdir()
    first = World(tmp_path, RULE, state)
    first.play(7)
    assert names(first.close()) == ["ofu.finding.opened"]
    (tmp_path / "out.jsonl").unlink()
    second = World(tmp_path, RULE, state)
    second.play(12, from_s=430.0)
    assert "ofu.finding.opened" not in names(second.close())


def test_the_shipped_rules_load_and_have_one_interval() -> None:
    rules = configured_rules(Config())
    assert len(rules) >= 12
    assert base_interval_s(rules) >= 10


def test_a_gpu_that_changes_its_job_leaves_no_entity_of_the_old_one(tmp_path: Path) -> None:
    world = World(tmp_path, RULE)
    rules = world.pipeline.rules
    assert rules is not None
    for tick, job in enumerate(["a", "a", "b", "c"]):
        entity = Entity("gpu", f"GPU-1/{job}", {"hw.id": "GPU-1", "ofu.job.id": job})
        world.clock.set(10.0 * (tick + 1))
        window = Window(10.0 * tick, 10.0 * (tick + 1))
        world.pipeline.take([Observation(entity, window, {"ofu": 0.4})])
    assert [e.id for e in rules.store.entities("gpu")] == ["GPU-1/c"]
    world.close()
