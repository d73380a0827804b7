"""No line of a page is passed over in silence."""

from pathlib import Path

import pytest

from otel_ofu.catalog.registry import load_registry
from otel_ofu.catalog.vendors import load_vendors
from otel_ofu.model import Gap, GapReason
from otel_ofu.model.clock import VirtualClock
from otel_ofu.sources.scrape.explain import PageExplanation, explain
from otel_ofu.sources.scrape.page import ScrapeContext
from otel_ofu.sources.scrape.parse import parse
from tests.sources.scrape.golden import NOW_S, PAGES, read, stamped


def explained(text: str, now_s: float | None = NOW_S) -> PageExplanation:
    context = ScrapeContext(load_vendors(), load_registry(), VirtualClock(NOW_S), 10.0)
    return explain(stamped(text), context, "node.test", now_s)


@pytest.mark.parametrize("page", sorted(PAGES.glob("*.prom")), ids=lambda path: path.stem)
def test_every_line_of_every_page_is_accounted_for(page: Path) -> None:
    text = page.read_text("utf-8")
    found = explained(text)
    lines = {report.line for report in found.lines}
    known = {sample.line for sample in parse(stamped(text)).samples}
    assert len(lines) == len(found.lines)
    assert len(lines) + sum(name.count for name in found.unknown) == len(known)
    assert lines <= known
    assert found.readings == read(text).readings


def test_a_line_names_device_owner_key_and_value() -> None:
    labels = 'gpu="0",UUID="GPU-0",pod="train-0",hpc_job="7"'
    (line,) = explained(f"# HELP x\nDCGM_FI_DEV_SM_CLOCK{{{labels}}} 1410\n").lines
    assert (line.line, line.name, line.text) == (2, "DCGM_FI_DEV_SM_CLOCK", "1410")
    assert line.device == "GPU-0"
    assert [owner.attributes["k8s.pod.name"] for owner in line.owners] == ["train-0"]
    assert line.owners[0].job_id == "7"
    assert line.keys == {"sm_clock": 1.41e9}


def test_a_value_of_a_whole_gpu_on_the_row_of_an_instance_is_the_gpus() -> None:
    labels = 'gpu="0",UUID="GPU-0",GPU_I_ID="1",GPU_I_PROFILE="3g.40gb"'
    power, tensor = explained(
        f"DCGM_FI_DEV_POWER_USAGE{{{labels}}} 300\n"
        f"DCGM_FI_PROF_PIPE_TENSOR_ACTIVE{{{labels}}} 0.5\n"
    ).lines
    assert (power.device, tensor.device) == ("GPU-0", "MIG-GPU-0/1")


@pytest.mark.parametrize(
    ("line", "note"),
    [
        ("DCGM_FI_DEV_SM_CLOCK 1410", "name no device: none of UUID, gpu"),
        ('gpu_clock{gpu_id="0",clock_type="video"} 29', "clock_type 'video' (read: system"),
        ('nvidia_smi_xid_errors_total{uuid="0",xid="x"} 1', "have no code"),
        ('nvidia_smi_gpu_info{uuid="0",name="L20"} 1', "describes the device"),
        ('DCGM_FI_DEV_XID_ERRORS{gpu="0",UUID="GPU-0"} 31', "a change counts as xid:<code>"),
        ('active_cycles{gpu_index="0"} 30', "engine_busy is computed from it"),
    ],
)
def test_what_gives_no_value_says_why(line: str, note: str) -> None:
    (report,) = explained(f"{line}\n").lines
    assert note in report.note
    assert report.keys == {}


def test_a_series_that_is_repeated_for_another_owner_says_so() -> None:
    series = 'DCGM_FI_DEV_SM_CLOCK{{gpu="0",UUID="GPU-0",hpc_job="{}"}} 1410\n'
    first, second = explained(series.format(1) + series.format(2)).lines
    assert (first.note, second.note) == ("", "repeats line 1, for another owner")


def test_names_that_nobody_knows_are_listed_once_with_their_count() -> None:
    found = explained("go_goroutines 8\nup 1\ngo_goroutines 9\n")
    assert [(name.name, name.line, name.count) for name in found.unknown] == [
        ("go_goroutines", 1, 2),
        ("up", 2, 1),
    ]


@pytest.mark.parametrize(
    ("stamp", "now_s", "reason"),
    [
        ("NOW-2h", NOW_S, GapReason.STALE),
        ("NOW+1h", None, GapReason.OUT_OF_RANGE),
        ("NOW-2h", None, None),
    ],
)
def test_a_saved_page_is_read_at_its_newest_stamp(
    stamp: str, now_s: float | None, reason: GapReason | None
) -> None:
    series = f'DCGM_FI_DEV_SM_CLOCK{{gpu="0",UUID="GPU-0"}} 1410 {stamp}\n'
    (line,) = explained(series, now_s).lines
    value = line.keys["sm_clock"]
    assert (value.reason if isinstance(value, Gap) else None) is reason
