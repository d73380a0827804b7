"""What a person sees who types wrong words, right words, or nothing."""

from __future__ import annotations

import gzip
import signal
import subprocess
from pathlib import Path

import pytest

from otel_ofu import __version__
from otel_ofu.cli.main import VERBS
from tests.cli.command import NOWHERE, arguments, environment, run, run_process, run_until, started
from tests.sources.scrape.server import Exchange, gone, page, serving
from tests.waiting import HANGS_S, wait_until


def test_version(tmp_path: Path) -> None:
    assert run_process(tmp_path, "--version").stdout == f"otel-ofu {__version__}\n"


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_a_help_text(tmp_path: Path, verb: str) -> None:
    done = run(tmp_path, verb, "--help")
    assert done.returncode == 0
    assert f"usage: otel-ofu {verb}" in done.stdout


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ([], "VERB"),
        (["fly"], "invalid choice: 'fly'"),
        (["demo", "--speed", "fast"], "'fast' is not a number"),
        (["demo", "--for", "10"], "'10' is not a duration such as 10s"),
        (["demo", "--for", "0s"], "must be longer than nothing"),
        (["demo", "--scenario", "storm"], "storm"),
        (["demo", "--gpus", "0"], "--gpus: must be from 1 to"),
        (["run", "-c", "/nonexistent.yaml"], "/nonexistent.yaml: cannot be read: No such file"),
        (["replay", "nothing.jsonl"], "nothing.jsonl"),
        (["replay", "x.csv"], "a CSV needs a column map"),
        (["record"], "-o/--output"),
    ],
)
def test_wrong_words_end_with_2_and_one_clear_message(
    tmp_path: Path, words: list[str], told: str
) -> None:
    done = run(tmp_path, *words)
    assert done.returncode == 2
    assert told in done.stderr
    assert "Traceback" not in done.stderr


def test_a_bad_config_is_shown_with_all_its_mistakes(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text("outbox: {max_size: 1MB}\nreceivers: {gpu: {sourc: nvml}}\n")
    done = run(tmp_path, "run", "--check", "-c", "c.yaml")
    assert done.returncode == 2
    assert "c.yaml:1:20: '1MB' is not a size" in done.stderr
    assert "c.yaml:2:19: unknown key 'sourc'; did you mean source?" in done.stderr


def test_a_config_without_mistakes_is_ok(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text("receivers: {gpu: {source: demo}}\n")
    done = run(tmp_path, "run", "--check", "-c", "c.yaml")
    assert (done.returncode, done.stdout) == (0, "c.yaml: ok\n")


def test_check_ends_with_1_where_the_config_is_ok_and_no_gpu_can_be_read(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text(NOWHERE)
    done = run(tmp_path, "run", "--check", "-c", "c.yaml")
    assert done.returncode == 1
    assert done.stdout == "c.yaml: the configuration is valid; no GPU can be read\n"
    assert done.stderr.startswith("c.yaml: no source of GPU counters works here:\n  dcgm ")


def test_check_names_the_endpoint_that_gives_nothing(tmp_path: Path) -> None:
    with serving(page(PAGE)) as server, gone() as closed:
        (tmp_path / "c.yaml").write_text(
            "receivers:\n  gpu:\n    source: scrape\n"
            f"    scrape: {{endpoints: [{{url: '{server.url}'}}, {{url: '{closed}'}}]}}\n"
        )
        done = run(tmp_path, "run", "--check", "-c", "c.yaml")
    assert done.returncode == 1
    told = "c.yaml: the configuration is valid; 1 of 2 endpoints gives nothing\n"
    assert done.stdout == told
    assert done.stderr == f"c.yaml: {closed}: connection refused; check that the exporter runs\n"


PAGE = 'DCGM_FI_DEV_GPU_TEMP{gpu="0",UUID="GPU-1",modelName="NVIDIA H100 80GB HBM3"} 40\n'


def test_without_a_gpu_run_waits_and_shows_what_it_tried_and_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text(NOWHERE)
    done = run_process(tmp_path, "run", "-c", "c.yaml", "--for", "1s")
    assert done.returncode == 0
    remedy = "`otel-ofu doctor` shows what to do about each"
    assert f"WARNING no source of GPU counters works here; {remedy}" in done.stderr
    for source in ("dcgm", "nvml", "scrape"):
        assert done.stderr.count(f"WARNING {source}: ") == 1
    assert done.stderr.count("connection refused") == 1
    assert "no GPU found, waiting for one, every 0.5 s" in done.stderr


def refused(exchange: Exchange) -> None:
    exchange.reply(b"", 503)


def test_an_exporter_that_starts_after_the_agent_is_read_once_it_answers(tmp_path: Path) -> None:
    with serving(refused) as server:
        (tmp_path / "c.yaml").write_text(
            "receivers:\n  gpu:\n    source: scrape\n    interval: 200ms\n"
            f"    scrape: {{endpoints: [{{url: '{server.url}'}}]}}\n"
        )
        with started(tmp_path, "run", "-c", "c.yaml") as process:
            err, out = process.stderr, process.stdout
            assert err is not None
            assert out is not None
            wait_until(lambda: "answered 503" in err.readline(), "the answer of the proxy")
            server.answer = page("")
            wait_until(lambda: "empty" in err.readline(), "the empty page")
            server.answer = page("<html>")
            wait_until(lambda: "HTML" in err.readline(), "the page of another service")
            server.answer = page(PAGE)
            wait_until(lambda: "1 GPU " in out.readline(), "a GPU")
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=HANGS_S)
    assert process.returncode == 0


def test_without_a_gpu_make_run_shows_the_demo_and_says_so_first(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text(NOWHERE)
    done = run_until("8 GPUs  OFU 4", tmp_path, "run", "--or-demo", "-c", "c.yaml")
    assert done.returncode == 0
    assert done.stdout.startswith("no GPU counters on this machine, so this is the demo node.")
    assert "8 GPUs  OFU 4" in done.stdout


def test_the_demo_writes_one_line_per_round_to_a_pipe(tmp_path: Path) -> None:
    done = run(tmp_path, "demo", "--scenario", "debug-flag", "--speed", "0", "--for", "5m")
    lines = done.stdout.splitlines()
    assert done.returncode == 0
    assert lines[0].startswith("otel-ofu demo: simulated node, scenario debug-flag")
    assert len([line for line in lines if "8 GPUs" in line]) == 30
    told = [line for line in lines if line.startswith("what happens:")]
    assert told[1].startswith("what happens: TORCH_DISTRIBUTED_DEBUG=DETAIL")


def test_the_demo_shows_a_trouble_that_comes_and_goes_once(tmp_path: Path) -> None:
    done = run(tmp_path, "demo", "--scenario", "data-loader", "--speed", "0", "--for", "20m")
    shown = [line for line in done.stdout.splitlines() if line.startswith("what happens:")]
    assert len(shown) == 2
    assert shown[0] == "what happens: a healthy training job"


def test_a_reader_that_goes_away_ends_the_demo_quietly(tmp_path: Path) -> None:
    with started(tmp_path, "demo", "--speed", "600") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        process.wait(HANGS_S)
        assert "Traceback" not in process.stderr.read()


def test_ctrl_c_ends_the_demo_cleanly(tmp_path: Path) -> None:
    with started(tmp_path, "demo") as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=HANGS_S)
        assert (process.returncode, err) == (0, "")


@pytest.mark.parametrize("words", [["demo", "--for", "20s", "--speed", "0"], ["rules", "list"]])
def test_an_output_that_cannot_be_written_is_one_line(tmp_path: Path, words: list[str]) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            arguments(*words),
            env=environment(tmp_path),
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=HANGS_S,
            check=False,
        )
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr


def test_doctor_of_the_demo_agrees_with_itself(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text("receivers: {gpu: {source: demo, interval: 1s}}\n")
    done = run(tmp_path, "doctor", "-c", "c.yaml")
    assert done.returncode == 0
    assert done.stdout.count("+ demo: reads it") == 8


def test_a_state_folder_that_cannot_be_is_not_called_good(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text("receivers: {gpu: {source: demo, interval: 1s}}\n")
    elsewhere = {"STATE_DIRECTORY": "/proc/nope"}
    done = run(tmp_path, "doctor", "-c", "c.yaml", extra=elsewhere)
    assert done.returncode == 1
    assert "- state    /proc/nope cannot be written" in done.stdout


@pytest.mark.parametrize("verb", [("run",), ("run", "--check"), ("doctor",)])
def test_a_configured_state_folder_that_cannot_be_is_a_mistake(
    tmp_path: Path, verb: tuple[str, ...]
) -> None:
    (tmp_path / "c.yaml").write_text("state_dir: /proc/nope\n")
    done = run(tmp_path, *verb, "-c", "c.yaml")
    assert done.returncode == 2
    assert "c.yaml:1:12: /proc/nope: /proc cannot be written" in done.stderr


def test_doctor_says_what_is_missing_and_ends_with_1(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text(NOWHERE)
    done = run(
        tmp_path,
        "doctor",
        "-c",
        "c.yaml",
        extra={"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9"},
    )
    assert done.returncode == 1
    assert "- dcgm" in done.stdout
    assert "- scrape   http://127.0.0.1:9/metrics: connection refused" in done.stdout
    assert "- OTLP     http://127.0.0.1:9/v1/metrics (metrics): " in done.stdout
    assert done.stdout.endswith("the agent cannot run here: see the arrows above\n")
    assert not (tmp_path / "state").exists()


def test_a_csv_is_replayed_with_a_column_map(tmp_path: Path) -> None:
    (tmp_path / "m.yaml").write_text(
        "time: {column: t, unit: s}\n"
        "source: hand\n"
        "device: {uuid: GPU-1, model: NVIDIA H100 80GB HBM3}\n"
        "columns:\n"
        "  tensor_pct: {key: tensor_active, scale: 0.01}\n"
        "  clock_mhz: {key: sm_clock, scale: 1000000}\n"
    )
    rows = ["t,tensor_pct,clock_mhz", "10,50,1830", "20,30,1830", "30,40,915"]
    (tmp_path / "x.csv").write_text("\n".join(rows) + "\n")
    done = run(tmp_path, "replay", "x.csv", "--columns", "m.yaml")
    assert done.returncode == 0
    assert "mean ofu 0.2500" in done.stdout  # the first row has no time
    assert "reference clock 1830 MHz from sku_table" in done.stdout


def test_a_replay_weighs_its_means_by_the_length_of_the_windows(tmp_path: Path) -> None:
    lines = [
        '{"line":"header","otel_ofu_recording":1,"host":"n1","start_s":1764400000,"interval_s":10}',
        '{"line":"device","number":0,"device":{"uuid":"GPU-1","model":"NVIDIA H100 80GB HBM3"}}',
    ]
    for start_s, end_s, active in ((1764400000, 1764400001, 0.9), (1764400001, 1764400101, 0.1)):
        values = f'{{"tensor_active":{active},"sm_clock":1.83e9}}'
        lines += [
            '{"line":"tick","readings":1}',
            (
                f'{{"line":"reading","device":0,"window":[{start_s},{end_s}],"source":"nvml",'
                f'"values":{values}}}'
            ),
        ]
    (tmp_path / "r.jsonl").write_text("\n".join(lines) + "\n")
    done = run(tmp_path, "replay", "r.jsonl")
    assert "mean ofu 0.1079  tensor_active 0.1079" in done.stdout


@pytest.mark.parametrize("text", ["", "\x1f\x8b\x00rubbish", '{"line": "reading"}\n'])
def test_what_is_no_recording_is_one_clear_error(tmp_path: Path, text: str) -> None:
    (tmp_path / "r.jsonl").write_text(text)
    done = run(tmp_path, "replay", "r.jsonl")
    assert done.returncode == 2
    assert "r.jsonl" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_compressed_recording_of_the_demo_is_replayed(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text("receivers: {gpu: {source: demo, interval: 200ms}}\n")
    done = run(tmp_path, "record", "-o", "r.jsonl.gz", "--for", "1s", "-c", "c.yaml")
    assert done.returncode == 0, done.stderr
    with gzip.open(tmp_path / "r.jsonl.gz") as stream:
        assert stream.readline().startswith(b'{"line":"header"')
    again = run(tmp_path, "record", "-o", "r.jsonl.gz", "--for", "1s", "-c", "c.yaml")
    assert again.returncode == 1
    assert "exists already" in again.stderr
    played = run(tmp_path, "replay", "r.jsonl.gz")
    assert played.stdout.count("mean ofu 0.4") == 8
