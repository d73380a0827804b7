"""The whole agent, as a process, sending to a real Collector."""

from __future__ import annotations

import itertools
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from otel_ofu.files.shipped import shipped
from tests.cli.command import NOWHERE, started
from tests.peers.peer import run_tool
from tests.peers.processes import Collector
from tests.waiting import HANGS_S, wait_until

pytestmark = pytest.mark.peer

StartCollector = Callable[..., Collector]
GPUS = "gpus=2 gpm.5=43.75 sm_clock=1410"
STEP_NS = 200_000_000


@pytest.fixture
def config(tmp_path: Path, stub_library: Path) -> Path:
    path = tmp_path / "c.yaml"
    nvml = f"    nvml: {{library: {stub_library}}}\n"
    path.write_text(NOWHERE.replace("500ms", "200ms") + nvml)
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


def ofu_times(collector: Collector) -> list[int]:
    """The times of the OFU points of GPU 0 in the order in which they arrived."""
    return [
        int(point["timeUnixNano"])
        for request in collector.metrics()
        for resource in request["resourceMetrics"]
        for metric in resource["scopeMetrics"][0]["metrics"]
        if metric["name"] == "ofu.gpu.utilization" and _index(resource) == "0"
        for point in metric["gauge"]["dataPoints"]
        if "asDouble" in point
    ]


def _index(resource: dict[str, Any]) -> str:
    found = {a["key"]: a["value"] for a in resource["resource"]["attributes"]}
    return str(found.get("ofu.gpu.index", {}).get("intValue", ""))


def let_rounds_pass() -> None:
    """Three seconds: fifteen rounds, which the outbox alone sees."""
    threading.Event().wait(3)


def test_the_environment_alone_sends_to_a_collector(
    tmp_path: Path, config: Path, collector: StartCollector
) -> None:
    taker = collector()
    with agent(tmp_path, config, taker.http_endpoint):
        wait_until(lambda: len(ofu_times(taker)) >= 3, "three OFU points")
    assert "ofu.sampler.duration" in str(taker.metrics())


def test_while_the_collector_is_away_nothing_is_lost_and_order_is_kept(
    tmp_path: Path, config: Path, collector: StartCollector
) -> None:
    taker = collector()
    with agent(tmp_path, config, taker.http_endpoint):
        wait_until(lambda: len(ofu_times(taker)) >= 3, "OFU before")
        taker.kill()
        before = len(ofu_times(taker))
        let_rounds_pass()
        taker.start()
        wait_until(lambda: len(ofu_times(taker)) >= before + 10, "OFU after")
    times = ofu_times(taker)
    assert times == sorted(times)
    # The two rounds at the start are not aligned; from then on there is one every 200 ms.
    steps = {round((b - a) / STEP_NS) for a, b in itertools.pairwise(times[2:])}
    assert steps == {1}


def test_an_agent_that_is_killed_sends_the_rest_at_its_next_start(
    tmp_path: Path, config: Path, collector: StartCollector
) -> None:
    taker = collector()
    endpoint = taker.http_endpoint
    taker.stop()
    extra = {"NVML_STUB": GPUS, "OTEL_EXPORTER_OTLP_ENDPOINT": endpoint}
    with started(tmp_path, "run", "-c", str(config), extra=extra) as process:
        let_rounds_pass()
        process.kill()
        process.communicate()
    taker.start()
    with agent(tmp_path, config, endpoint):
        wait_until(lambda: len(ofu_times(taker)) >= 8, "what the first agent left")
    times = ofu_times(taker)
    assert times == sorted(times)


def test_the_collector_takes_our_sample_configuration(collector: StartCollector) -> None:
    collector(start=False)
    run_tool("otelcol", "validate", f"--config={shipped('config') / 'collector.yaml'}")
