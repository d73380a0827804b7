"""The agent as a process over the real driver bindings and the C stub."""

from __future__ import annotations

import json
import shutil
import signal
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.command import NOWHERE, run, run_process, run_until, started
from tests.sources.scrape.server import gone, page, serving
from tests.waiting import HANGS_S, wait_until

GPUS = "gpus=2 gpm.5=43.75 sm_clock=1410"


@pytest.fixture
def config(tmp_path: Path, stub_library: Path) -> Callable[[str], Path]:
    """Writes a config whose nvml source is the stub."""

    def write(exporters: str = "") -> Path:
        path = tmp_path / "c.yaml"
        path.write_text(f"{NOWHERE}    nvml: {{library: {stub_library}}}\n{exporters}")
        return path

    return write


def test_lines_of_two_gpus_and_why_the_first_round_has_no_ofu(
    tmp_path: Path, config: Callable[[str], Path]
) -> None:
    # 0.4375 x 1410 MHz / 1830 MHz
    words = ("run", "-c", str(config("")))
    done = run_until("OFU 33.7%", tmp_path, *words, extra={"NVML_STUB": GPUS})
    lines = done.stdout.splitlines()
    assert done.returncode == 0, done.stderr
    assert "2 GPUs through NVML, 2 with GPM counters, every 0.5 s, to this terminal" in done.stderr
    assert "OFU -" in lines[0]
    assert "not ready" in lines[1]
    assert "OFU 33.7%" in done.stdout


def test_an_old_gpu_reports_all_the_rest_and_says_that_ofu_has_no_input(
    tmp_path: Path, config: Callable[[str], Path]
) -> None:
    done = run_until(
        "not supported",
        tmp_path,
        *("run", "-c", str(config(""))),
        extra={"NVML_STUB": "gpus=1 architecture=7"},
    )
    assert "OFU -" in done.stdout
    assert "OFU, tensor, SM, DRAM: not supported (this GPU has no GPM" in done.stdout
    assert done.stderr.count("no OFU: tensor_active: not supported: this GPU has no GPM") == 1
    assert "INFO dcgm: " in done.stderr
    assert "GPU util" in done.stdout


def test_otlp_json_lines_are_written(tmp_path: Path, config: Callable[[str], Path]) -> None:
    path = config("exporters: {file: {path: out.jsonl}}\n")
    out = tmp_path / "out.jsonl"
    with started(tmp_path, "run", "-c", str(path), extra={"NVML_STUB": GPUS}) as process:
        wait_until(lambda: out.exists() and "ofu.gpu.utilization" in out.read_text(), "OFU")
        process.send_signal(signal.SIGTERM)
        said, err = process.communicate(timeout=HANGS_S)
    assert process.returncode == 0, err
    assert said == ""  # it sends somewhere and there is no terminal
    requests = [json.loads(line) for line in out.read_text().splitlines()]
    names = {
        metric["name"]
        for request in requests
        for resource in request["resourceMetrics"]
        for metric in resource["scopeMetrics"][0]["metrics"]
    }
    assert {"ofu.gpu.utilization", "ofu.gpu.clock.factor", "hw.power"} <= names
    assert "ofu.sampler.duration" in names


def test_a_page_for_prometheus_is_served_while_it_runs(
    tmp_path: Path, config: Callable[[str], Path]
) -> None:
    path = config("exporters: {prometheus: {listen: '127.0.0.1:0'}}\n")
    with started(tmp_path, "run", "-c", str(path), extra={"NVML_STUB": GPUS}) as process:
        assert process.stderr is not None
        url = process.stderr.readline().split(" to ")[1].strip()

        def has_ofu() -> bool:
            with urllib.request.urlopen(url, timeout=HANGS_S) as answer:
                return "ofu_gpu_utilization_ratio{" in answer.read().decode()

        wait_until(has_ofu, "a page with OFU")
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=HANGS_S)
        assert process.returncode == 0


def test_the_agent_stops_while_a_driver_call_hangs(
    tmp_path: Path, config: Callable[[str], Path]
) -> None:
    extra = {"NVML_STUB": "gpus=1 hang.nvmlDeviceGetPowerUsage=1"}
    with started(tmp_path, "run", "-c", str(config("")), extra=extra) as process:
        err = process.stderr
        assert err is not None
        late = "nvml: no answer for 0."
        wait_until(lambda: late in err.readline(), late)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=HANGS_S)
        assert process.returncode == 0


def test_a_driver_that_is_installed_while_the_agent_runs_is_picked_up(
    tmp_path: Path, stub_library: Path
) -> None:
    library = tmp_path / "libnvidia-ml.so.1"
    (tmp_path / "c.yaml").write_text(f"{NOWHERE}    nvml: {{library: {library}}}\n")
    extra = {"NVML_STUB": GPUS}
    with started(tmp_path, "run", "-c", "c.yaml", extra=extra) as process:
        out, err = process.stdout, process.stderr
        assert out is not None
        assert err is not None
        wait_until(lambda: "waiting for one" in err.readline(), "the first line")
        shutil.copy(stub_library, library)
        wait_until(lambda: "OFU 33.7%" in out.readline(), "OFU")
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=HANGS_S)
    assert process.returncode == 0


def test_doctor_tells_for_each_gpu_source_clock_and_ofu(
    tmp_path: Path, config: Callable[[str], Path]
) -> None:
    done = run_process(tmp_path, "doctor", "-c", str(config("")), extra={"NVML_STUB": GPUS})
    assert done.returncode == 0
    assert "+ nvml     2 GPUs through NVML, 2 with GPM counters; this one is used" in done.stdout
    assert done.stdout.count("reference clock 1830 MHz from sku_table (SKU h100-sxm5)") == 2
    assert done.stdout.count("OFU 33.7% just now") == 2
    assert done.stdout.count("- dcgm: does not work here, see above") == 2
    assert done.stdout.endswith("the agent can run\n")


def test_doctor_lists_an_endpoint_that_gives_nothing_and_ends_with_1(tmp_path: Path) -> None:
    good = 'DCGM_FI_DEV_GPU_TEMP{gpu="0",UUID="GPU-1",modelName="NVIDIA H100 80GB HBM3"} 40\n'
    with serving(page(good)) as server, gone() as closed:
        (tmp_path / "c.yaml").write_text(
            "receivers:\n  gpu:\n    source: scrape\n    interval: 100ms\n"
            f"    scrape: {{endpoints: [{{url: '{server.url}'}}, {{url: '{closed}'}}]}}\n"
        )
        done = run(tmp_path, "doctor", "-c", "c.yaml")
    assert done.returncode == 1
    assert f"+ scrape   1 GPU at {server.url} (1 of 2 endpoints gives nothing)" in done.stdout
    assert f"      - {closed}: connection refused; check that the exporter runs" in done.stdout
    assert done.stdout.endswith(f"the agent can run, without {closed}\n")


def test_a_finding_is_told_as_a_card_and_can_be_explained(
    tmp_path: Path, config: Callable[[str], Path]
) -> None:
    rules = tmp_path / "rules.yaml"
    rules.write_text(
        "groups:\n  - name: quick\n    interval: 1s\n    rules:\n"
        "      - alert: Low\n        each: gpu\n        expr: avg(ofu, 2s) < 90%\n"
        "        labels: {severity: warning}\n"
        "        annotations: {summary: '{{ $labels.hw_id }}: OFU is {{ $value | percent }}'}\n"
    )
    path = config(f"rules: {{paths: ['{rules}']}}\n")
    words = ("run", "-c", str(path))
    done = run_until("  id ", tmp_path, *words, extra={"NVML_STUB": GPUS})
    assert done.returncode == 0, done.stderr
    assert "OFU is 33.7%" in done.stdout
    finding = done.stdout.split("\n  id ")[1].split()[0]
    explained = run(tmp_path, "explain", finding[:6], "-c", str(path))
    assert explained.returncode == 0, explained.stderr
    assert "OFU is 33.7%" in explained.stdout
    listed = run(tmp_path, "explain", "-c", str(path))
    assert finding in listed.stdout
    shown = run(tmp_path, "rules", "explain", "Low", "-c", str(path))
    assert "avg(ofu, 2s) < 90%" in shown.stdout


def test_a_receiver_gets_a_sample_and_a_route_is_explained(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text(
        "route:\n  receiver: people\n  receivers: [{name: people, stdout_configs: [{}]}]\n"
    )
    sent = run(tmp_path, "notify", "--test", "people", "-c", "c.yaml")
    assert sent.returncode == 0, sent.stderr
    assert "taken" in sent.stdout
    shown = run(tmp_path, "route", "--explain", "severity=critical", "-c", "c.yaml")
    assert "people" in shown.stdout
