"""The answer of the command: for people and for machines."""

from __future__ import annotations

import json
import math

import pytest

from otel_ofu.catalog.skus import load_skus
from otel_ofu.mfu.flops import mistakes, model_flops
from otel_ofu.mfu.summary import JobRun, summary_data, summary_lines
from tests.mfu.flops import models

FLOPS = model_flops(models.LLAMA3_405B, 8192)
WRONG = mistakes(models.LLAMA3_405B, 8192)


def run(precision: str) -> JobRun:
    return JobRun(292.0, load_skus().by_id["h100-sxm5"], precision)


def test_people_read_cost_mfu_and_mistakes() -> None:
    text = "\n".join(summary_lines(FLOPS, WRONG, run("fp8")))
    assert "llama, 8,192 tokens, causal attention" in text
    assert "405,853,388,800" in text
    assert "737.0 TFLOP/s of 1,978.9: MFU 37.2%" in text
    assert "x 1.33    recomputation counted (8N): this is HFU" in text


def test_without_a_run_there_is_no_mfu() -> None:
    assert not any("MFU 3" in line for line in summary_lines(FLOPS, WRONG))
    assert "run" not in summary_data(FLOPS, WRONG)


def test_machines_read_the_same_numbers() -> None:
    data = json.loads(json.dumps(summary_data(FLOPS, WRONG, run("fp8"))))
    assert data["training_flops_per_token"] == FLOPS.training
    assert sum(p["forward_flops_per_token"] for p in data["parts"]) == pytest.approx(FLOPS.forward)
    assert data["run"]["mfu"] == pytest.approx(0.372, abs=0.001)
    assert {m["id"] for m in data["mistakes"]} >= {"recompute", "macs", "full_attention"}


def test_a_precision_that_the_gpu_lacks_is_refused_with_those_it_has() -> None:
    with pytest.raises(ValueError, match=r"no tensor peak in fp4; allowed: .*bf16"):
        summary_lines(FLOPS, (), run("fp4"))


@pytest.mark.parametrize("tokens", [math.nan, math.inf, -math.inf, -5.0, 0.0, 1e13])
def test_tokens_that_no_gpu_makes_are_refused(tokens: float) -> None:
    with pytest.raises(ValueError, match=r"must be above 0, at most 1e\+12"):
        JobRun(tokens, load_skus().by_id["h100-sxm5"], "bf16")


def test_an_mfu_above_the_peak_gets_a_remark() -> None:
    odd = JobRun(2920.0, load_skus().by_id["h100-sxm5"], "fp8")
    assert "  above the peak: check the units" in summary_lines(FLOPS, WRONG, odd)
    assert summary_data(FLOPS, WRONG, odd)["run"]["remark"] == "above the peak: check the units"
    assert summary_data(FLOPS, WRONG, run("fp8"))["run"]["remark"] == ""
