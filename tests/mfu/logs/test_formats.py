"""Each framework's line gives its figures in our units, alone and among others."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_ofu.mfu.logs.blocks import LineBlocks
from otel_ofu.mfu.logs.formats import MOST_ROLES, built_in_readers, readers_of
from otel_ofu.mfu.logs.patterns import LinePattern
from otel_ofu.mfu.logs.scanner import LineOrigin, Scanner
from otel_ofu.mfu.report import JobReport
from tests.mfu.logs.lines import (
    COMMAS,
    LINES,
    LLM_C,
    MEGATRON_ENERGY,
    NANOCHAT,
    SILENT,
    TITAN,
    VERL,
    figures,
)

ORIGIN = LineOrigin("train.log")


def scan(text: str | bytes) -> list[JobReport]:
    raw = text.encode() if isinstance(text, str) else text
    block = LineBlocks().feed(raw)
    return [] if block is None else Scanner().scan(block, ORIGIN, 12.0)


@pytest.mark.parametrize(("line", "framework", "expected"), LINES)
def test_a_line_gives_its_figures(line: str, framework: str, expected: dict[str, float]) -> None:
    (report,) = scan(line + "\n")
    assert report.framework == framework
    assert figures(report) == pytest.approx(expected)


@pytest.mark.parametrize(("line", "expected"), COMMAS)
def test_a_decimal_comma_is_never_a_mark_of_thousands(
    line: str, expected: dict[str, float]
) -> None:
    (report,) = scan(line + "\n")
    assert figures(report) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("line", "step"),
    [
        ("03:26 [Rank 0] step: 8, loss: 9.9, tokens_per_second: 76957.79, mfu: 42.46", 8),
        ("Step 12 | Time: 10.21s | Throughput: 76957 tokens/s | MFU: 42.5%", 12),
        ("iter 1: loss 10.9733, time: 9463.66ms, mfu: 3.24%", 1),
        ("iter 200: loss 2.0000, time 120.10ms, mfu 38.21%", 200),
        (LLM_C.format("61.2"), 10),
        (NANOCHAT.format("mfu: 12.3%"), 50),
        ("step:125/1393 train_time:18010ms step_avg:156.61ms", 125),
        (MEGATRON_ENERGY, 292),
        (TITAN, 10),
        ("completed step: 9, seconds: 0.166, TFLOP/s/device: 41.524", 9),
        ("12 tokens_per_second_per_gpu:1234.5", None),
    ],
)
def test_the_number_of_the_step_is_read_where_the_line_has_it(line: str, step: int | None) -> None:
    (report,) = scan(line + "\n")
    assert report.step == step


def test_energy_is_no_throughput_and_power_and_batch_are_read_beside_it() -> None:
    (report,) = scan(MEGATRON_ENERGY + "\n")
    assert report.tflops_per_gpu == 388.1
    assert (report.power_w_per_gpu, report.batch_size) == (551.2, 512)


def test_the_precision_of_the_peak_is_kept_where_the_line_says_it() -> None:
    precisions = [scan(line + "\n")[0].precision for line in (LLM_C.format("61.2"), TITAN)]
    assert precisions == ["bf16", ""]


def test_two_roles_in_one_line_are_two_reports_beside_the_job_s() -> None:
    reports = scan(VERL + "\n")
    assert {r.role: figures(r) for r in reports} == {
        "actor_infer": {"mfu": pytest.approx(1.7)},
        "actor": {"mfu": pytest.approx(0.0217869)},
        "": {"step_s": 31.5, "tokens_per_s_per_gpu": 1024.5},
    }
    assert {(r.line_number, r.step) for r in reports if not r.role} == {(1, 66)}


def test_more_roles_than_a_job_has_are_left_out() -> None:
    reports = scan("".join(f"perf/mfu/role_{n}:0.1 " for n in range(200)) + "\n")
    assert len(reports) == MOST_ROLES


@pytest.mark.parametrize(
    "text", ["perf/mfu/", "perf/mfu/a:0.1 ", "mfu 1,", "iter 1: loss ms, mfu "]
)
def test_a_line_of_nothing_but_marks_is_read_in_linear_time(text: str) -> None:
    # Quadratic work would be 10^9 steps and more here: it would be noticed.
    scan(text * (60_000 // len(text)) + "\n")


@pytest.mark.parametrize("line", SILENT)
def test_no_figure_is_no_report(line: str) -> None:
    assert scan(line + "\n") == []


def test_a_whole_log_gives_each_report_with_its_line_number() -> None:
    text = "".join(
        f"noise {i}\n{line}\n{SILENT[i % len(SILENT)]}\n" for i, (line, *_) in enumerate(LINES)
    )
    reports = scan(text)
    assert [r.line_number for r in reports] == [3 * i + 2 for i in range(len(LINES))]
    assert [r.framework for r in reports] == [framework for _, framework, _ in LINES]
    assert {(r.source, r.time_s) for r in reports} == {("train.log", 12.0)}


def test_every_framework_of_the_formats_is_tried() -> None:
    assert {r.framework for r in built_in_readers()} == {framework for _, framework, _ in LINES}


def test_wrappers_of_container_runtimes_are_taken_off() -> None:
    stamp = "2026-01-01T00:00:00.123456789+02:00"
    cri = f"{stamp} stderr F noise\n{stamp} stdout F {TITAN}\n"
    docker = "".join(
        json.dumps({"log": line + "\n", "stream": "stdout", "time": stamp}) + "\n"
        for line in ("noise <&>", TITAN)
    )
    for text in (cri, cri.replace("+02:00", "Z"), docker):
        (report,) = scan(text)
        assert report.line_number == 2
        assert figures(report) == figures(scan(TITAN + "\n")[0])


def test_a_byte_order_mark_loses_nothing() -> None:
    block = LineBlocks().feed(b"\xef\xbb\xbfs=2.5\ns=3.5\n")
    assert block is not None
    scanner = Scanner(patterns=[LinePattern(r"^s=(?P<step_s>\S+)")])
    assert [r.step_s for r in scanner.scan(block, ORIGIN, 0.0)] == [2.5, 3.5]


def test_own_patterns_see_the_beginning_of_a_wrapped_line() -> None:
    block = LineBlocks().feed(b"2026-01-01T00:00:00Z stdout F s=2.5\n")
    assert block is not None
    scanner = Scanner(patterns=[LinePattern(r"^s=(?P<step_s>\S+)")])
    assert [r.step_s for r in scanner.scan(block, ORIGIN, 0.0)] == [2.5]


def test_a_damaged_docker_line_does_not_cost_the_next() -> None:
    good = json.dumps({"log": TITAN + "\n"})
    (report,) = scan('{"log":"half\n' + good + "\n")
    assert report.line_number == 2


def test_progress_bars_do_not_hide_the_line_behind_them() -> None:
    (report,) = scan("\r  0%| | 1/9\r 10%|# | 2/9\riter 200: loss 2.0, time 120.10ms, mfu 38.21%\n")
    assert report.mfu == pytest.approx(0.3821)
    assert report.line_number == 1


def test_some_frameworks_can_be_chosen_and_unknown_ones_are_named() -> None:
    scanner = Scanner(readers_of(["nanogpt"]))
    block = LineBlocks().feed("".join(line + "\n" for line, *_ in LINES).encode())
    assert block is not None
    assert {r.framework for r in scanner.scan(block, ORIGIN, 0.0)} == {"nanogpt"}
    assert readers_of([]) == built_in_readers()
    with pytest.raises(ValueError, match="unknown framework 'caffe'; known: megatron-lm"):
        readers_of(["nemo", "caffe"])


@given(st.binary(max_size=400), st.sampled_from(LINES))
def test_rubbish_around_lines_is_survived(
    rubbish: bytes, line: tuple[str, str, dict[str, float]]
) -> None:
    reports = scan(rubbish + b"\n" + line[0].encode() + b"\n" + rubbish)
    assert any(r.framework == line[1] for r in reports)


@given(st.data())
def test_pieces_of_any_size_give_the_same_reports(data: st.DataObject) -> None:
    raw = "".join(f"{line}\nnoise\n" for line, *_ in LINES[:8]).encode()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(raw)), max_size=12)))
    blocks, found = LineBlocks(), list[JobReport]()
    for start, end in zip([0, *cuts], [*cuts, len(raw)], strict=True):
        block = blocks.feed(raw[start:end])
        found += Scanner().scan(block, ORIGIN, 12.0) if block else []
    assert found == scan(raw)
