"""`otel-ofu doctor --page`: what a page gives, and what it ends with."""

import io
import os
from pathlib import Path

import pytest

from tests.cli.command import run
from tests.sources.scrape.server import gone, page, serving

GPU = 'gpu="0",UUID="GPU-0",modelName="NVIDIA H100 80GB HBM3",pod="train-0"'
CLOCK = f"DCGM_FI_DEV_SM_CLOCK{{{GPU}}} 1830\n"
TENSOR = f"DCGM_FI_PROF_PIPE_TENSOR_ACTIVE{{{GPU}}} 0.5\n"


def test_a_page_with_an_ofu_ends_with_0(tmp_path: Path) -> None:
    (tmp_path / "p").write_text(CLOCK + TENSOR + "go_goroutines 8\n")
    done = run(tmp_path, "doctor", "--page", "p")
    assert done.returncode == 0
    assert (
        "line 1: DCGM_FI_DEV_SM_CLOCK 1830 -> GPU-0 of k8s.pod.name=train-0: sm_clock 1830000000 Hz"
        " (ofu.gpu.clock.frequency{ofu.clock=sm})" in done.stdout
    )
    assert "line 3: go_goroutines: no profile knows it" in done.stdout
    assert "reference clock 1830 MHz from sku_table (SKU h100-sxm5)" in done.stdout
    assert "OFU 50.0% just now" in done.stdout
    assert "For an OFU" not in done.stdout


def test_a_page_without_an_ofu_says_what_to_set_and_ends_with_1(tmp_path: Path) -> None:
    (tmp_path / "p").write_text(CLOCK)
    done = run(tmp_path, "doctor", "--page", "p")
    assert done.returncode == 1
    assert "For an OFU\n  -> add the line `DCGM_FI_PROF_PIPE_TENSOR_ACTIVE, gauge" in done.stdout


@pytest.mark.parametrize("bad", ['DCGM_FI_DEV_GPU_TEMP{gpu="0"\n', "DCGM_FI_DEV_GPU_TE"])
def test_a_line_that_cannot_be_read_is_shown_with_its_number(tmp_path: Path, bad: str) -> None:
    (tmp_path / "p").write_text(CLOCK + TENSOR + bad)
    done = run(tmp_path, "doctor", "--page", "p")
    assert done.returncode == 1
    assert f"line 3: {bad.strip()}: " in done.stdout
    assert "with OFU: 1, lines that could not be read: 1" in done.stdout


def test_instances_stand_in_for_their_gpu(tmp_path: Path) -> None:
    instance = GPU + ',GPU_I_ID="1",GPU_I_PROFILE="3g.40gb"'
    (tmp_path / "p").write_text((CLOCK + TENSOR).replace(GPU, instance))
    assert run(tmp_path, "doctor", "--page", "p").returncode == 0


def test_a_page_of_something_else_ends_with_1(tmp_path: Path) -> None:
    (tmp_path / "p").write_text("up 1\n")
    done = run(tmp_path, "doctor", "--page", "p")
    assert done.returncode == 1
    assert "none: no profile knows a metric of this page" in done.stdout


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "p: the page is empty"),
        (b"\n \n", "p: the page is empty"),
        (b"<html><body>404</body></html>", "p: answered with HTML"),
        (b"x" * 5000, "p: the page is larger than 4096 bytes (max_body)"),
    ],
)
def test_what_is_no_page_is_one_line(tmp_path: Path, body: bytes, words: str) -> None:
    (tmp_path / "p").write_bytes(body)
    (tmp_path / "c.yaml").write_text("receivers: {gpu: {scrape: {max_body: 4096B}}}\n")
    done = run(tmp_path, "doctor", "--page", "p", "-c", "c.yaml")
    assert (done.returncode, done.stdout) == (1, "")
    assert words in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_page_cannot_upset_the_terminal(tmp_path: Path) -> None:
    evil = "\x1b[2J\u202e\x00"
    body = CLOCK.replace("train-0", f"t{evil}") + f"evil{evil} 1\n{evil}{{\n" + TENSOR
    (tmp_path / "p").write_text(body.replace("GPU-0", f"GPU{evil}"), "utf-8")
    done = run(tmp_path, "doctor", "--page", "p")
    assert all(character.isprintable() for character in done.stdout.replace("\n", ""))


def test_bytes_that_are_no_text_are_no_crash(tmp_path: Path) -> None:
    (tmp_path / "p").write_bytes(bytes(range(1, 256)) * 20)
    assert run(tmp_path, "doctor", "--page", "p").returncode == 1


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("absent", "no such file; a page on the network begins with http://"),
        (".", "a directory; name the file of a page in it"),
        ("/dev/null", "neither a file nor a pipe"),
    ],
)
def test_what_is_no_file_is_a_mistake_of_the_command(tmp_path: Path, name: str, words: str) -> None:
    done = run(tmp_path, "doctor", "--page", name)
    assert done.returncode == 2
    assert f"--page {name}: {words}" in done.stderr


def test_a_page_is_read_from_a_pipe(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.write(writing, (CLOCK + TENSOR).encode())
    os.close(writing)
    done = run(tmp_path, "doctor", "--page", f"/dev/fd/{reading}")
    os.close(reading)
    assert done.returncode == 0
    assert f"page: /dev/fd/{reading}\n" in done.stdout


def test_lines_that_differ_are_shown_with_the_one_that_is_used(tmp_path: Path) -> None:
    new = TENSOR.replace("PIPE_TENSOR_ACTIVE", "TENSOR_UTIL_RATIO").replace("0.5", "0.7")
    (tmp_path / "p").write_text(new + CLOCK + TENSOR + TENSOR.replace("0.5", "0.6"))
    done = run(tmp_path, "doctor", "--page", "p")
    told = {line.split(":")[0].strip(): line for line in done.stdout.splitlines() if "->" in line}
    assert told["line 1"].endswith("; differs from line 3, not used")
    assert told["line 4"].endswith("; differs from line 3, not used")
    assert "not used" not in told["line 2"] + told["line 3"]
    assert "OFU 50.0% just now" in done.stdout


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        (
            (CLOCK + TENSOR).replace("NVIDIA H100 80GB HBM3", "Graphics Device"),
            "'Graphics Device' is in no table of models: set receivers.gpu.reference_clock, or",
        ),
        (
            (CLOCK + TENSOR).replace("\n", " 9999999999999\n"),
            "check the clocks of the exporter's machine and of this one: sm_clock: the sample is",
        ),
        (
            TENSOR.replace("\n", " 1764400000000\n") + CLOCK.replace("\n", " 1764409000000\n"),
            "check the clocks of the exporter's machine and of this one, and that the exporter re",
        ),
        (
            CLOCK + TENSOR.replace("0.5", "45.7"),
            "the exporter gives an impossible value, update or repair it: tensor_active: 45.7; al",
        ),
    ],
)
def test_advice_says_what_to_do(tmp_path: Path, text: str, advice: str) -> None:
    (tmp_path / "p").write_text(text)
    done = run(tmp_path, "doctor", "--page", "p")
    assert f"For an OFU\n  -> {advice}" in done.stdout


def test_advice_is_not_shortened(tmp_path: Path) -> None:
    (tmp_path / "p").write_text(CLOCK.replace("NVIDIA H100 80GB HBM3", "x" * 900) + TENSOR)
    done = run(tmp_path, "doctor", "--page", "p")
    assert "(docs/skus.md)" in done.stdout


def test_a_url_that_is_none_is_a_mistake_of_the_command(tmp_path: Path) -> None:
    done = run(tmp_path, "doctor", "--page", "ftp://node:9400")
    assert done.returncode == 2
    assert "expected http://host:port/path" in done.stderr


def test_a_page_on_the_network_is_fetched_with_the_credentials_of_the_config(
    tmp_path: Path,
) -> None:
    (tmp_path / "token").write_text("secret\n")
    with serving(page(CLOCK + TENSOR)) as server:
        (tmp_path / "c.yaml").write_text(
            "receivers: {gpu: {scrape: {endpoints: "
            f"[{{url: '{server.url}', bearer_token_file: token}}]}}}}}}\n"
        )
        done = run(tmp_path, "doctor", "--page", server.url, "-c", "c.yaml")
    assert done.returncode == 0
    assert server.authorizations == ["Bearer secret"]
    assert f"page: {server.url}\n" in done.stdout


def test_a_password_in_the_url_is_not_shown(tmp_path: Path) -> None:
    with gone() as url:
        done = run(tmp_path, "doctor", "--page", url.replace("//", "//me:secret@"))
    assert done.returncode == 1
    assert "connection refused" in done.stderr
    assert "secret" not in done.stdout + done.stderr


def test_a_page_is_read_from_standard_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = io.TextIOWrapper(io.BytesIO((CLOCK + TENSOR).encode()))
    monkeypatch.setattr("sys.stdin", given)
    done = run(tmp_path, "doctor", "--page", "-")
    assert done.returncode == 0
    assert "page: standard input" in done.stdout
