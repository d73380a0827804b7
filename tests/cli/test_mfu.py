"""What `otel-ofu mfu` says to numbers and files that cannot be."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.command import run
from tests.mfu.flops import models

H100 = ("--gpu", "h100-sxm5")


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "mine.json"
    path.write_text(json.dumps(models.LLAMA3_8B), "utf-8")
    return path


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (("--tokens-per-s-per-gpu", "nan", *H100), "must be above 0"),
        (("--tokens-per-s-per-gpu", "9", *H100, "--precision", "fp4"), "no tensor peak in fp4"),
        ((*H100, "--precision", "fp3"), "'fp3' (choose from 'fp64', 'tf32', 'bf16'"),
    ],
)
def test_a_run_that_cannot_be_is_one_clear_error(
    config: Path, more: tuple[str, ...], words: str
) -> None:
    done = run(config.parent, "mfu", str(config), *more)
    assert done.returncode == 2
    assert words in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "no model is given; add CONFIG.json, or --gemm MxNxK"),
        (("--gemm", "4096x4096"), "--gemm '4096x4096' is not MxNxK, as in 4096x4096x4096"),
        (("--gemm", "0x1x1"), "each from 1 to 16777216"),
        (("--gemm", "1x1x99999999"), "each from 1 to 16777216"),
        (("--gemm", "1x1x" + "9" * 5000), "is not MxNxK"),
        (("--gemm", "-1x1x1"), "expected one argument"),
        (("--gemm", "axbxc"), "is not MxNxK"),
        (("--gemm", "1x1x1", "--tile", "8"), "--tile '8' is not MxN, as in 128x256"),
        (("--gemm", "1x1x1", "--tile", ""), "--tile '' is not MxN"),
        (("--gemm", "1x1x1", "--time", "3ms"), "--time needs --sku"),
        (("--gemm", "1x1x1", "--time", "3", *H100), "'3' is not a time above 0 with a unit"),
        (("--gemm", "1x1x1", "--time", "0ms", *H100), "'0ms' is not a time above 0"),
        (("--gemm", "1x1x1", "--gpu", "none"), "--gpu 'none' is not known; known: v100"),
        (("--gemm", "1x1x1", "--sku", "none"), "--sku 'none' is not known; known: v100-sxm2"),
        (("--gemm", "1x1x1", *H100, "--precision", "fp4"), "no tensor peak in fp4"),
        (("--gemm", "1x1x1", "mine.json"), "CONFIG.json and --gemm are for two questions"),
        (("--gemm", "1x1x1", "--seq-len", "5"), "--seq-len and --gemm are for two questions"),
        (("--gemm", "1x1x1", "--masking", "full"), "--masking and --gemm are for two questions"),
        (("--gemm", "1x1x1", "--ofu", "41%"), "--ofu and --gemm are for two questions"),
        (("mine.json", "--time", "1ms"), "--time belongs to --gemm; add --gemm MxNxK"),
        (("mine.json", "--ofu", "41%"), "--ofu is compared with a run; add --tokens"),
        (("mine.json", "--tokens-per-s-per-gpu", "9", *H100, "--ofu", "41"), "as in 41% or 0.41"),
        (("mine.json", "--tokens-per-s-per-gpu", "9", *H100, "--ofu", "x"), "as in 41% or 0.41"),
    ],
)
def test_arguments_that_do_not_fit_are_one_clear_error(
    config: Path, arguments: tuple[str, ...], words: str
) -> None:
    done = run(config.parent, "mfu", *arguments)
    assert done.returncode == 2
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_a_gemm_of_an_odd_size_shows_more_ofu_than_it_needs(tmp_path: Path) -> None:
    done = run(tmp_path, "mfu", "--gemm", "4097x4097x4096", *H100, "--time", "1.3ms")
    assert done.returncode == 0
    # ceil(4097 / 128) = 33 tiles and ceil(4097 / 256) = 17: arithmetic.
    required, executed = 2 * 4097 * 4097 * 4096, 2 * 33 * 128 * 17 * 256 * 4096
    assert f"{required:,}" in done.stdout
    assert f"{executed:,}" in done.stdout
    assert "1.095" in done.stdout
    peak = 132 * 4096 * 1830e6
    assert f"expected OFU {executed / peak / 1.3e-3:.1%}" in done.stdout
    assert f"the product needs {required / peak / 1.3e-3:.1%}" in done.stdout


def test_a_gemm_for_programs_has_its_tile_and_precision(tmp_path: Path) -> None:
    more = ("--tile", "64x64x32", "--precision", "fp8", "--sku", "b200", "--time", "100us")
    done = run(tmp_path, "mfu", "--gemm", "100x64x32", *more, "--json")
    data = json.loads(done.stdout)
    assert (data["tile"], data["sku"], data["precision"]) == ([64, 64, 32], "b200", "fp8")
    assert data["tile_quantization"] == pytest.approx(1.28)
    assert data["executed_flops"] == 2 * 128 * 64 * 32
    assert data["ofu"] == pytest.approx(data["executed_flops"] / data["peak_tflops"] / 1e12 / 1e-4)


def test_without_a_gpu_a_gemm_has_its_flops_and_the_depth_of_the_precision(tmp_path: Path) -> None:
    done = run(tmp_path, "mfu", "--gemm", "256x256x130", "--precision", "fp8", "--json")
    data = json.loads(done.stdout)
    assert data["tile"] == [128, 256, 128]
    assert data["tile_quantization"] == pytest.approx(256 / 130)
    assert "ofu" not in data


def test_a_time_that_cannot_be_is_told(tmp_path: Path) -> None:
    done = run(tmp_path, "mfu", "--gemm", "4096x4096x4096", *H100, "--time", "1us")
    assert "above the peak: check --time and --precision; 138.907 us is the least" in done.stdout


def test_a_measured_ofu_of_four_times_the_mfu_names_the_accumulation_steps(config: Path) -> None:
    # 2,100 tokens/s x 48 GFLOPs of 989.4 TFLOP/s are 10.2 %, a quarter of 41 %.
    more = (*H100, "--tokens-per-s-per-gpu", "2100", "--ofu", "41%")
    done = run(config.parent, "mfu", str(config), *more)
    assert "one of 4 gradient accumulation steps counted (1/4)" in done.stdout
    told = json.loads(run(config.parent, "mfu", str(config), *more, "--json").stdout)["run"]
    assert told["mfu_over_ofu"] == pytest.approx(0.25, abs=0.003)
    assert told["verdict"] == "under"
    assert told["reasons"] == ["one of 4 gradient accumulation steps counted (1/4)"]


def test_a_measured_ofu_that_fits_is_as_it_should_be(config: Path) -> None:
    more = (*H100, "--tokens-per-s-per-gpu", "8000", "--ofu", "0.42")
    assert "as it should be" in run(config.parent, "mfu", str(config), *more).stdout


def test_a_mistake_in_a_config_names_the_file_that_was_given(config: Path) -> None:
    config.write_text(json.dumps({**models.LLAMA3_8B, "hidden_size": 1e300}), "utf-8")
    done = run(config.parent, "mfu", "mine.json")
    assert done.returncode == 2
    assert "mine.json: 'hidden_size' is 1e+300; allowed: " in done.stderr


def test_a_config_that_is_not_there_ends_with_2_as_every_file_does(tmp_path: Path) -> None:
    done = run(tmp_path, "mfu", "none.json")
    assert done.returncode == 2
    assert done.stderr == "none.json: cannot be read: No such file or directory\n"
