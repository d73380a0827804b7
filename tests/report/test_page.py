"""The page holds what it should, as HTML that stands alone."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_ofu.report import ReportBuilder, page, report_of
from otel_ofu.report.charts import steps, timeline
from otel_ofu.report.text import hours, percent, points, span
from tests.report.fleet import gathered, gpu, seen

EVIL = "<script>alert(1)</script>\"'&\x00\u202e"
VOID = {"meta", "br"}


class Strict(HTMLParser):
    """Each element that opens closes, in order; the text is kept."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        assert not {name for name, _ in attrs} & {"src", "href", "onclick", "onload"}
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def read(text: str) -> Strict:
    parser = Strict()
    parser.feed(text)
    parser.close()
    assert parser.open == []
    return parser


def small() -> str:
    jobs = {"good": (0.4, 0.39), "moe": (0.2558, 0.5427), "silent": (0.3, None), EVIL: (0.35, 0.9)}
    return page(report_of(gathered(jobs), [EVIL], [EVIL]), EVIL)


def test_the_page_is_whole_and_says_the_essential() -> None:
    text = read(small()).text
    for words in (
        "3 with MFU, 1 without",
        "experts in a latent space counted at the full hidden size (2.12)",
        "not reported",
        "1 : 1",
        "mean over GPU time",
        "8 GPUs, OFU 40.0 %, MFU 39.0 %",
    ):
        assert words in text


def test_foreign_words_stay_words() -> None:
    made = small()
    assert "script" not in read(made).tags
    assert "<script" not in made
    assert "\x00" not in made
    assert "\u202e" not in made
    assert "&lt;script&gt;alert(1)&lt;/script&gt;&quot;&#x27;&amp;" in made


@given(st.text(st.characters(codec=None), max_size=30))
def test_no_name_of_a_job_breaks_the_page(name: str) -> None:
    gather = ReportBuilder()
    gather.observe([seen(gpu(name), 0.0, 0.4, 3600.0)])
    read(page(report_of(gather))).text.encode("utf-8")


def test_nothing_is_fetched_from_anywhere() -> None:
    made = small()
    assert "default-src 'none'" in made
    assert not re.search(r"https?://|url\(|@import", made)


def test_nothing_to_show_is_said() -> None:
    text = read(page(report_of(ReportBuilder(), ["empty.jsonl"]))).text
    assert "There is nothing to show" in text
    assert "empty.jsonl" in text


def test_gpus_without_a_job_are_drawn_and_the_remedy_told() -> None:
    gather = ReportBuilder()
    gather.observe([seen(gpu(""), 0.0, 0.4, 3600.0)])
    text = read(page(report_of(gather))).text
    assert "GPUs without a job" in text
    assert "--job NAME" in text


def test_jobs_without_any_mfu_have_no_scatter() -> None:
    text = read(page(report_of(gathered({"a": (0.4, None)})))).text
    assert "No job has both" in text
    assert "cannot be right" not in text


def test_many_jobs_are_drawn_in_part_and_that_is_said() -> None:
    made = page(report_of(gathered({f"j{n}": (0.4, 0.39) for n in range(70)}, hours=0.1)))
    assert made.count("<article>") == 60
    assert "10 more are in the files" in read(made).text


def test_pictures_are_xml_and_lines_break_at_gaps() -> None:
    gather = ReportBuilder()
    for tick, ofu in enumerate((0.4, 0.4, None, 0.3, 0.3, None, 0.2)):
        gather.observe([seen(gpu("a"), tick * 30.0, ofu)])
    report = report_of(gather)
    root = ET.fromstring(timeline(report.jobs[0].series, (report.start_s or 0, report.end_s or 0)))
    assert len(root.findall("polyline")) == 2
    assert len(root.findall("circle")) == 1


@pytest.mark.parametrize(
    ("highest", "expected"),
    [
        (0.52, [0, 0.2, 0.4, 0.6]),
        (1.0, [0, 0.2, 0.4, 0.6, 0.8, 1.0]),
        (0.09, [0, 0.02, 0.04, 0.06, 0.08, 0.1]),
    ],
)
def test_axes_have_round_numbers(highest: float, expected: list[float]) -> None:
    assert steps(highest) == pytest.approx(expected)


@given(st.floats(1e-6, 1e3))
def test_axes_hold_every_value_in_few_steps(highest: float) -> None:
    made = steps(highest)
    assert made[-1] >= highest * (1 - 1e-6)
    assert 2 <= len(made) <= 7


def test_numbers_are_written_alike() -> None:
    assert [percent(None), percent(0.4321)] == ["\N{EN DASH}", "43.2 %"]
    assert [points(-0.013), points(0.5)] == ["\N{MINUS SIGN}1.3", "+50.0"]
    assert [hours(v) for v in (0, 0.534, 31.93, 1234567.8)] == ["0", "0.53", "31.9", "1,234,568"]
    assert [span(v) for v in (30, 300, 5400, 172800)] == ["30 s", "5 min", "1.5 h", "2 d"]
