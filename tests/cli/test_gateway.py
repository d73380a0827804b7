"""Agents on nodes, a gateway behind them, and a training job that says its own speed."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import run, started
from tests.waiting import HANGS_S, wait_until

GATEWAY = """\
state_dir: {folder}/gateway
receivers:
  gpu: {{source: none, interval: 1s}}
  otlp: {{http: {{endpoint: "127.0.0.1:0"}}}}
exporters: {{file: {{path: {folder}/gateway.jsonl}}}}
"""
NODE = """\
state_dir: {folder}/node
receivers: {{gpu: {{source: demo, interval: 1s, demo: {{scenario: healthy, gpus: 2}}}}}}
exporters:
  otlp_http: {{endpoint: "{endpoint}"}}
  file: {{path: {folder}/node.jsonl}}
mfu: {{logs: [{{files: ["{folder}/train.log"], job: "4242", start: beginning}}]}}
"""
LOG = (
    "step:  1  loss: 2.0  grad_norm:  1.0  memory: 47.90GiB(60.10%)  "
    "tps: 8,000  tflops: 400.00  mfu: 40.44%\n"
)


@contextmanager
def agent(folder: Path, text: str, name: str) -> Iterator[subprocess.Popen[str]]:
    (folder / name).write_text(text)
    with started(folder, "run", "-c", name) as process:
        yield process
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=HANGS_S)
        assert process.returncode == 0


def whole_lines(path: Path) -> list[str]:
    """Of a file that is being written; what comes after the last line feed is not yet a line."""
    return path.read_text().split("\n")[:-1]


def points(path: Path, name: str) -> list[dict[str, Any]]:
    """The data points of a metric in a file of OTLP JSON lines."""
    if not path.exists():
        return []
    return [
        point
        for line in whole_lines(path)
        for resource in json.loads(line).get("resourceMetrics", [])
        for metric in resource["scopeMetrics"][0]["metrics"]
        if metric["name"] == name
        for point in metric.get("gauge", {}).get("dataPoints", [])
        if "asDouble" in point
    ]


def resource_names(path: Path, name: str) -> set[str]:
    """The attributes of the resources that have a metric."""
    return {
        attribute["key"]
        for line in whole_lines(path)
        for resource in json.loads(line).get("resourceMetrics", [])
        if name in {metric["name"] for metric in resource["scopeMetrics"][0]["metrics"]}
        for attribute in resource["resource"]["attributes"]
    }


def test_a_gateway_makes_the_jobs_over_the_nodes_that_send_to_it(tmp_path: Path) -> None:
    (tmp_path / "train.log").write_text(LOG)
    with agent(tmp_path, GATEWAY.format(folder=tmp_path), "gateway.yaml") as gateway:
        assert gateway.stderr is not None
        first = gateway.stderr.readline()
        assert "no GPUs of its own, listening at " in first
        endpoint = "http://" + first.split(" on ")[1].split(",")[0]
        node = NODE.format(folder=tmp_path, endpoint=endpoint)
        with agent(tmp_path, node, "node.yaml"):
            out = tmp_path / "gateway.jsonl"
            wait_until(lambda: points(out, "ofu.job.utilization"), "OFU of the job")
            wait_until(lambda: points(tmp_path / "node.jsonl", "ofu.job.mfu"), "its MFU")
    (ofu, *_) = points(out, "ofu.job.utilization")
    assert 0.35 < ofu["asDouble"] < 0.5
    assert "host.name" not in resource_names(out, "ofu.job.utilization")
    (mfu, *_) = points(tmp_path / "node.jsonl", "ofu.job.mfu")
    assert mfu["asDouble"] == pytest.approx(400 / 989.4, rel=0.01)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "receivers: {gpu: {source: none}}",
            "c.yaml:1:27: none requires an endpoint of receivers.otlp",
        ),
        (
            "receivers: {otlp: {http: {endpoint: '127.0.0.1:0'}}}\nrules: {enabled: false}",
            "c.yaml:2:18: must be true where receivers.otlp listens",
        ),
        ("receivers: {otlp: {grpc: {endpoint: '4317'}}}", "'4317' is not an address"),
        (
            "mfu: {metrics: {my.mfu: speed}}",
            "c.yaml:1:25: unknown value 'speed'; one of: flops_per_gpu, mfu",
        ),
        ("mfu: {logs: [{job: a}]}", "either `files` or `command`"),
        ("jobs: {target_ofu: 40}", "40 is not a part such as 40%"),
        ("jobs: {providers: [sulrm]}", "sulrm"),
        ("evidence: {flags: {files: [/nonexistent.yaml]}}", "/nonexistent.yaml"),
    ],
)
def test_a_config_that_cannot_be_is_told_before_anything_starts(
    tmp_path: Path, text: str, told: str
) -> None:
    (tmp_path / "c.yaml").write_text(text + "\n")
    done = run(tmp_path, "run", "--check", "-c", "c.yaml")
    assert done.returncode == 2, done.stdout
    assert told in done.stderr
    assert "Traceback" not in done.stderr
