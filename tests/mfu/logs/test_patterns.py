"""Own patterns: what they may be, what they give, and that none can hang the agent."""

from __future__ import annotations

import subprocess
import sys

import pytest

from otel_ofu.mfu.logs import LinePattern, PatternError, Scanner
from otel_ofu.mfu.logs.blocks import LineBlock
from otel_ofu.mfu.logs.scanner import LineOrigin
from otel_ofu.mfu.report import JobReport
from tests.mfu.logs.lines import figures
from tests.waiting import HANGS_S

ORIGIN = LineOrigin("own.log", "job-7")


def scan(text: bytes, *patterns: LinePattern) -> list[JobReport]:
    return Scanner(patterns=patterns).scan(LineBlock(text, 5), ORIGIN, 1.0)


def test_groups_fill_the_figures_in_our_units() -> None:
    pattern = LinePattern(r"^speed (?P<flops_per_gpu>\S+) FLOPS, (?P<mfu_percent>\S+)", "ours")
    (report,) = scan(b"x\nspeed 4.1e14 FLOPS, 41.5\nno speed 1 FLOPS, 2\n", pattern)
    assert figures(report) == pytest.approx({"tflops_per_gpu": 410.0, "mfu": 0.415})
    assert (report.framework, report.line_number, report.job) == ("ours", 6, "job-7")


def test_a_pattern_wins_over_the_built_in_formats_and_reports_a_line_once() -> None:
    line = b"iter 200: loss 2.0000, time 120.10ms, mfu 38.21%\n"
    own = LinePattern(r"mfu (?P<mfu_percent>[\d.]+)"), LinePattern("loss (?P<mfu>.*)")
    (report,) = scan(line, *own)
    assert report.framework == "pattern"
    assert report.mfu == pytest.approx(0.3821)


def test_a_percent_sign_in_a_group_counts_once() -> None:
    (report,) = scan(b"util 38.21%\n", LinePattern(r"util (?P<mfu_percent>\S+)"))
    assert report.mfu == pytest.approx(0.3821)


def test_a_percentage_that_is_taken_for_a_ratio_is_no_mfu() -> None:
    assert scan(b"util 41,71\n", LinePattern(r"util (?P<mfu>\S+)")) == []
    (report,) = scan(b"util 41,71\n", LinePattern(r"util (?P<mfu_percent>\S+)"))
    assert report.mfu == pytest.approx(0.4171)


def test_a_comment_line_is_no_report_of_a_pattern_either() -> None:
    pattern = LinePattern(r"mfu (?P<mfu_percent>[\d.]+)")
    assert [r.mfu for r in scan(b"# mfu 99\nmfu 38\n", pattern)] == [pytest.approx(0.38)]


def test_only_the_first_match_of_a_line_counts() -> None:
    reports = scan(b"t 1 t 2\nt 3\n\nt 4 t 5", LinePattern(r"t (?P<step_s>\d)"))
    assert [(r.line_number, r.step_s) for r in reports] == [(5, 1.0), (6, 3.0), (8, 4.0)]


def test_a_match_never_crosses_lines() -> None:
    pattern = LinePattern(r"a[^z]*(?P<step_s>\d)")
    assert [r.line_number for r in scan(b"a\n1\na 2\n", pattern)] == [7]


def test_a_group_without_a_number_is_no_report() -> None:
    assert scan(b"mfu N/A\nmfu -1\nmfu \n", LinePattern(r"mfu ?(?P<mfu>.*)$")) == []
    assert figures(scan(b"s 2\n", LinePattern(r"s (?P<step_s>\d)( m (?P<mfu>\d))?"))[0]) == {
        "step_s": 2.0
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "allowed: 1 to 2000"),
        ("x" * 2001, "pattern of 2001 characters"),
        ("(?P<mfu>", "allowed: RE2 syntax"),
        ("(?P<speed>x)", "unknown group 'speed'; allowed: mfu, mfu_percent"),
        ("(?P<mfu>x)(?P<a>y)", "unknown group 'a'"),
        ("mfu (.*)", "no named group; allowed: mfu"),
        (r"(?P<mfu>\d)(?=%)", "without look-around and references"),
        (r"(?P<mfu>\d)(?P=mfu)", "without look-around and references"),
        (r"\A(?P<mfu>\d)", "are not allowed"),
        (r"(?i-m)(?P<mfu>\d)", "are not allowed"),
        ("(?P<mfu>(a{900}){900})", "allowed: RE2 syntax"),
    ],
)
def test_what_cannot_be_used_is_said(text: str, message: str) -> None:
    with pytest.raises(PatternError) as caught:
        LinePattern(text)
    assert message in str(caught.value)


# Each takes a backtracking engine longer than anybody waits, on a line that does not match.
CATASTROPHIC = [
    r"(?P<mfu>(a+)+)$",
    r"(?P<mfu>(a|a)*)b",
    r"(?P<mfu>(.*)*(.*)*(.*)*)x",
    r"(?P<mfu>([a-z]+)*[A-Z])",
    r"(?P<mfu>" + "a?" * 300 + "a" * 300 + ")b",
    r"^(?P<mfu>(([a-z])+.)+[A-Z]([a-z])+)$",
]
_PROBE = """
import sys
from otel_ofu.mfu.logs import LinePattern
for text in sys.argv[1:]:
    list(LinePattern(text).matches(b"a" * 60_000 + b"!\\n"))
"""


def test_catastrophic_patterns_end() -> None:
    # A process of its own, so that a hang would fail this test and not stop the others. Any
    # backtracking engine needs longer than the age of the universe here, RE2 milliseconds.
    subprocess.run([sys.executable, "-c", _PROBE, *CATASTROPHIC], check=True, timeout=HANGS_S)


def test_many_matches_that_each_look_ahead_stay_linear() -> None:
    # All matches of a line would look at its rest each: 10^10 steps for this one.
    pattern = LinePattern(r"(?P<step_s>\d)(.*z)?")
    assert [r.step_s for r in scan(b"1" * 200_000 + b"\n2\n", pattern)] == [1.0, 2.0]


def test_without_the_engine_the_remedy_is_told() -> None:
    code = (
        "import sys; sys.modules['re2'] = None\n"
        "from otel_ofu.mfu.logs import LinePattern, PatternError, Scanner, built_in_readers\n"
        "assert Scanner() and built_in_readers()\n"
        "try:\n    LinePattern('(?P<mfu>x)')\nexcept PatternError as error:\n    print(error)\n"
    )
    run = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert (
        run.stdout.strip() == "own log patterns need the RE2 engine: pip install 'otel-ofu[logs]'"
    )
