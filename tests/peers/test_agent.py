"""The whole agent, as a process, sending to a real Collector."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from otel_ofu.files.installed import shipped
from tests.cli.command import NOWHERE, started
from tests.peers.peer import run_tool
from tests.peers.processes import Collector
from tests.waiting import HANGS_S, wait_until

pytestmark = pytest.mark.peer

StartCollector = Callable[..., Collector]
GPUS = "gpus=2 gpm.5=43.75 sm_clock=1410"
ROUNDS_AWAY = 10


@pytest.fixture
def config(tmp_path: Path, stub_library: Path) -> Path:
    path = tmp_path / "c.yaml"
    nvml = f"    nvml: {{library: {stub_library}}}\n"
    file = f"exporters: {{file: {{path: {tmp_path / 'rounds.jsonl'}}}}}\n"
    path.write_text(NOWHERE.replace("500ms", "200ms") + nvml + file)
    return path


@contextmanager
def agent(folder: Path, config: Path, endpoint: str) -> Iterator[subprocess.Popen[str]]:
    """Runs until the block ends, then must stop well."""
    extra = {"NVML_STUB": GPUS, "OTEL_EXPORTER_OTLP_ENDPOINT": endpoint}
    with started(folder, "run", "-c", str(config), extra=extra) as process:
        yield process
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=HANGS_S)
        assert process.returncode == 0


def ofu_times(requests: Iterable[dict[str, Any]]) -> list[int]:
    """The times of the OFU points of GPU 0 in their order."""
    return [
        int(point["timeUnixNano"])
        for request in requests
        for resource in request.get("resourceMetrics", [])
        for metric in resource["scopeMetrics"][0]["metrics"]
        if metric["name"] == "ofu.gpu.utilization" and _index(resource) == "0"
        for point in metric["gauge"]["dataPoints"]
        if "asDouble" in point
    ]


def arrived(collector: Collector) -> list[int]:
    """What came, in the order in which it came."""
    return ofu_times(collector.metrics())


def measured(folder: Path) -> list[int]:
    """What the agent has to send: the file exporter waits for nobody."""
    path = folder / "rounds.jsonl"
    lines = path.read_text().splitlines(keepends=True) if path.exists() else []
    return ofu_times(json.loads(line) for line in lines if line.endswith("\n"))


def _index(resource: dict[str, Any]) -> str:
    found = {a["key"]: a["value"] for a in resource["resource"]["attributes"]}
    return str(found.get("ofu.gpu.index", {}).get("intValue", ""))


def let_rounds_pass(folder: Path) -> None:
    """Rounds that the outbox alone takes."""
    enough = len(measured(folder)) + ROUNDS_AWAY
    wait_until(lambda: len(measured(folder)) >= enough, "rounds")


def test_the_environment_alone_sends_to_a_collector(
    tmp_path: Path, config: Path, collector: StartCollector
) -> None:
    taker = collector()
    with agent(tmp_path, config, taker.http_endpoint):
        wait_until(lambda: len(arrived(taker)) >= 3, "three OFU points")
    assert "ofu.sampler.duration" in str(taker.metrics())


def test_while_the_collector_is_away_nothing_is_lost_and_order_is_kept(
    tmp_path: Path, config: Path, collector: StartCollector
) -> None:
    taker = collector()
    with agent(tmp_path, config, taker.http_endpoint):
        wait_until(lambda: len(arrived(taker)) >= 3, "OFU before")
        taker.kill()
        let_rounds_pass(tmp_path)
        taker.start()
        wait_until(lambda: arrived(taker)[-1] >= measured(tmp_path)[-1], "OFU after")
    wait_until(lambda: arrived(taker) == measured(tmp_path), "everything in its order")


def test_an_agent_that_is_killed_sends_the_rest_at_its_next_start(
    tmp_path: Path, config: Path, collector: StartCollector
) -> None:
    taker = collector()
    endpoint = taker.http_endpoint
    taker.stop()
    extra = {"NVML_STUB": GPUS, "OTEL_EXPORTER_OTLP_ENDPOINT": endpoint}
    with started(tmp_path, "run", "-c", str(config), extra=extra) as process:
        let_rounds_pass(tmp_path)
        process.kill()
        process.communicate()
    kept = measured(tmp_path)[:-1]  # the kill may have come between the file and the outbox
    taker.start()
    with agent(tmp_path, config, endpoint):
        wait_until(lambda: set(kept) <= set(arrived(taker)), "what the first agent left")
    assert arrived(taker) == sorted(arrived(taker))


def test_the_collector_takes_our_sample_configuration(collector: StartCollector) -> None:
    collector(start=False)
    run_tool("otelcol", "validate", f"--config={shipped('config') / 'collector.yaml'}")
