"""promtool's test files, on our engine."""

from __future__ import annotations

from pathlib import Path

import pytest

from otel_ofu.catalog.registry import load_registry
from otel_ofu.files.yaml import read_yaml
from otel_ofu.model.errors import ConfigError
from otel_ofu.rules.tests import is_promtool_file, run_promtool_file
from otel_ofu.rules.tests.promtool import SeriesReader, promtool_samples

REGISTRY = load_registry()
RULES = """
groups:
  - name: g
    interval: 1m
    rules:
      - alert: LowOfu
        each: gpu
        expr: avg(ofu, 5m) < 15% and increase(xid:79, 5m) < 1
        for: 2m
        labels: {severity: warning}
        annotations: {summary: "{{ $labels.hw_id }} of {{ $labels.ofu_job_id }}"}
"""
TESTS = """
rule_files: [rules.yaml]
evaluation_interval: 1m
tests:
  - name: two GPUs
    interval: 1m
    input_series:
      - series: ofu{hw_id="GPU-1", ofu_job_id="7"}
        values: 0.1x30
      - series: ofu_gpu_utilization_ratio{hw_id="GPU-2", ofu_job_id="8"}
        values: 0.5x10 0.01x20
      - series: hw_errors_total{hw_id="GPU-1", hw_type="gpu", error_type="xid_79"}
        values: 0+0x30
      - series: xid:79{hw_id="GPU-2"}
        values: 0+0x30
    alert_rule_test:
      - eval_time: 3m
        alertname: LowOfu
      - eval_time: 8m
        alertname: LowOfu
        exp_alerts:
          - exp_labels: {severity: warning, hw_id: GPU-1, ofu_job_id: "7"}
            exp_annotations: {summary: GPU-1 of 7}
      - eval_time: 25m
        alertname: LowOfu
        exp_alerts:
          - exp_labels: {hw_id: GPU-2}
          - exp_labels: {hw_id: GPU-1}
      - eval_time: 1h
        alertname: LowOfu
"""


def write(folder: Path, tests: str = TESTS) -> Path:
    (folder / "rules.yaml").write_text(RULES)
    path = folder / "tests.yaml"
    path.write_text(tests)
    return path


def test_a_promtool_file_is_known_by_its_tests(tmp_path: Path) -> None:
    path = write(tmp_path)
    assert is_promtool_file(read_yaml(path))
    assert not is_promtool_file(read_yaml(tmp_path / "rules.yaml"))


def test_alerts_are_compared_at_the_time_asked_for(tmp_path: Path) -> None:
    results = run_promtool_file(write(tmp_path), REGISTRY)
    assert [(r.test, r.failures) for r in results] == [
        ("two GPUs at 3m", ()),
        ("two GPUs at 8m", ()),
        ("two GPUs at 25m", ()),
        ("two GPUs at 1h", ()),
    ]
    assert results[0].position.line == 17


def test_a_difference_says_what_is_firing(tmp_path: Path) -> None:
    tests = TESTS.replace('"7"}\n            exp_ann', '"9"}\n            exp_ann').replace(
        "eval_time: 3m", "eval_time: 9m"
    )
    first, second, *_ = run_promtool_file(write(tmp_path, tests), REGISTRY)
    told = {first.test: first.failures, second.test: second.failures}
    assert told["two GPUs at 9m"] == ("expected 0 to be firing, 1 are",)
    (failure,) = told["two GPUs at 8m"]
    assert "'ofu_job_id': '9'" in failure
    assert "firing: {'alertname': 'LowOfu', 'hw_id': 'GPU-1'" in failure


def test_mistakes_are_told_with_their_places(tmp_path: Path) -> None:
    tests = (
        TESTS.replace("alertname: LowOfu", "alertname: None", 1)
        .replace('ofu{hw_id="GPU-1", ofu_job_id="7"}', 'ofu{ofu_job_id="7"}')
        .replace("xid:79{hw", "xidd{hw")
        .replace("interval: 1m", "interval: minute", 1)
    )
    with pytest.raises(ConfigError) as caught:
        run_promtool_file(write(tmp_path, tests), REGISTRY)
    messages = [f"{p.line} {p.message}" for p in caught.value.problems]
    assert messages == [
        "8 a series of a gpu needs the label hw_id",
        "14 xidd with these labels is not a metric; did you mean xid?",
        "18 no rule 'None'",
        "3 expected a duration such as 30s, 10m or 1h30m, not 'minute'",
    ]


def test_samples_follow_the_notation_of_promtool() -> None:
    assert promtool_samples("1+2x3 4x2 -1-1x1") == [1, 3, 5, 7, 4, 4, 4, -1, -2]
    assert len(promtool_samples("_x3 stale _ 5")) == 6
    with pytest.raises(ValueError, match="not a list of samples"):
        promtool_samples("1..2")


def test_series_become_entities_with_their_attributes() -> None:
    inputs = SeriesReader(REGISTRY)
    inputs.add('hw_power_watts{hw_id="G",hw_type="gpu",host_name="n\\"1"}', "5x1")
    inputs.add('ofu_gpu_throttle_active_ratio{hw_id="G",ofu_throttle_reason="thermal"}', "1")
    assert set(inputs.series) == {("gpu G", "power"), ("gpu G", "throttled:thermal")}
    entity = inputs.entities["gpu G"]
    assert (entity.id, entity.attributes["host.name"]) == ("G", 'n"1')
    for wrong, words in (
        ("ofu{hw_id=1}", "not a list of labels"),
        ("5", "not a series"),
        ('ofu_sampler_missed_total{ofu_source="a",error_type="b"}', "about the agent itself"),
    ):
        with pytest.raises(ValueError, match=words):
            inputs.add(wrong, "1")
