"""What a person reads at 3 a.m.: which job, since when, how bad; the cause; the next step."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as profile
from hypothesis import strategies as st

from otel_ofu.model import Finding, RankedCause
from otel_ofu.notify import message as shown
from otel_ofu.notify.alert import Notification, ended, opened
from otel_ofu.notify.conditions import parse_zone
from otel_ofu.notify.message import (
    Message,
    MessageOptions,
    message_of,
    parse_message_template,
)
from tests.notify.rig import NOW_S, finding

LOADER = RankedCause(
    "data_loader",
    "The data loader is too slow",
    0.82,
    evidence=["CPU of n7 is 97 % busy (limit 90 %)", "GPU idles 310 ms in each step"],
    against=["the disk is idle"],
    unchecked=["environment of PID 4242"],
    remark="A slow disk would show as I/O wait.",
    next_steps=["Set `num_workers=8` in the DataLoader.", "Look at `py-spy dump --pid 4242`."],
    link="https://docs.example/data-loader",
)
MEMORY = RankedCause("memory", "Memory bound", 0.31)
JOB = {"ofu.job.id": "4242", "slurm.job.name": "llama", "host.name": "n7"}


def slow(**more: object) -> Finding:
    facts = {
        "ofu": 0.112,
        "ofu_before": 0.43,
        "gpu_hours_lost": 3.4,
        "gpu_util": 0.98,
        "began_s": NOW_S - 5400,
        "gpus": 64.0,
        "step_s": 1.25,
        "lasted_s": 4320.0,
    }
    known: dict[str, Any] = {"causes": [LOADER, MEMORY], "facts": facts, "since_s": NOW_S - 4320}
    known |= more
    return finding("GPU-1", severity="critical", attributes=JOB, **known)


def message(*findings: Finding, form: str = "text", **options: object) -> Message:
    alerts = [opened(d) for d in findings]
    told = Notification("ops", "k", {"ofu_job_id": "4242"}, alerts, NOW_S)
    chosen = MessageOptions(**options)  # type: ignore[arg-type]  # keys of the type
    return message_of(told, chosen, form)  # type: ignore[arg-type]  # the three forms


def test_the_whole_message() -> None:
    got = message(slow())
    assert got.title == (
        "CRITICAL job 4242 (llama), GPU-1 on n7 since 06:48 UTC (1 h 12 min):"
        " OFU 11 % now, 43 % before, 3.4 GPU-hours lost. LowOfu"
    )
    assert (
        got.body
        == """\
LowOfu on GPU-1

Likely cause: The data loader is too slow (82 %)
- CPU of n7 is 97 % busy (limit 90 %)
- GPU idles 310 ms in each step
- against it: the disk is idle
- not checked: environment of PID 4242

A slow disk would show as I/O wait.

Next:
- Set `num_workers=8` in the DataLoader.
- Look at `py-spy dump --pid 4242`.

Also possible: Memory bound (31 %)

began 06:30 UTC, 64 GPUs, GPU busy 98 %, step 1.25 s

More: https://docs.example/data-loader"""
    )


def test_no_cause_is_said() -> None:
    assert "No known cause fits." in message(slow(causes=[])).body


@pytest.mark.parametrize(
    ("finding", "end"),
    [
        (
            finding("7", each="job", value=0.08, threshold=0.15),
            ": value 0.08, threshold 0.15. LowOfu",
        ),
        (finding("7", each="job", facts={"ofu_before": 0.5}), ": OFU 50 % before. LowOfu"),
        (finding("7", each="job"), ": LowOfu"),
    ],
)
def test_what_is_not_known_is_left_out(finding: Finding, end: str) -> None:
    assert message(finding).title == f"WARNING job 7 since 07:50 UTC (10 min){end}"


def test_an_end_says_after_how_long_and_why() -> None:
    alert = opened(slow(reason="no_data"))
    ended(alert, NOW_S)
    got = message_of(Notification("o", "k", {}, [alert], NOW_S), MessageOptions(), "text")
    assert got.title.startswith(
        "RESOLVED job 4242 (llama), GPU-1 on n7 after 1 h 12 min, since 06:48"
    )
    assert "Ended: no data." in got.body
    assert "Next:" not in got.body


def test_times_are_those_of_the_people() -> None:
    assert "since 07:48 CET" in message(slow(), zone=parse_zone("Europe/Berlin")).title
    assert "since 2027-01-13 08:00 UTC (2 d)" in message(slow(since_s=NOW_S - 2 * 86_400)).title


def test_others_are_named_and_beyond_the_cap_counted() -> None:
    got = message(*(slow() for _ in range(30)), most_alerts=3)
    assert got.title.endswith("(+29 more)")
    assert got.body.count("CRITICAL job 4242") == 2
    assert got.body.endswith("- and 27 more")


def test_a_summary_of_many_findings_says_how_many() -> None:
    many = Finding(
        kind="opened", rule="LowOfu", entity=None, fingerprint="f", severity="warning",
        at_s=NOW_S, since_s=NOW_S, summary="LowOfu: 40 more gpus", count=40,
    )  # fmt: skip
    assert message(many).title == "WARNING 40 findings since 08:00 UTC (0 s): LowOfu"


def test_markdown_keeps_values_from_being_markup_and_commands_as_code() -> None:
    got = message(slow(summary="a *b* [c](d) <e> `rm *`"), form="markdown")
    assert r"a \*b\* \[c\](d) \<e\> `rm *`" in got.body
    assert "Likely cause: **The data loader is too slow**" in got.body
    assert "Set `num_workers=8` in" in got.body


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.seen.add(tag)
        if tag != "br":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@given(st.text(max_size=60))
@profile(max_examples=60, deadline=None)
def test_whatever_a_value_holds_html_stays_whole_and_has_no_tags_of_it(text: str) -> None:
    got = message(slow(summary=f"<script>{text}", rule=text or "r"), form="html")
    tags = Tags()
    tags.feed(got.body)
    assert tags.open == []
    assert tags.seen <= {"p", "br", "ul", "ol", "li", "strong", "code", "a"}
    assert "\n" not in got.title


OWN = """\
{{status}}: {{#first}}{{whom}} {{labels.team}}{{/first}}
{{#first}}{{#cause}}[{{title}}]({{link}}){{/cause}}{{/first}}
{{#alerts}}
1. {{rule}} {{#annotations.runbook}}({{annotations.runbook}}){{/annotations.runbook}}
{{/alerts}}
{{^first}}never{{/first}}
"""


def test_the_template_can_be_replaced_and_gives_all_three_forms() -> None:
    parts = parse_message_template(OWN)
    finding = slow(labels={"team": "nlp"}, annotations={"runbook": "r1"})
    text = message(finding, parts=parts)
    assert text.title == "firing: job 4242 (llama), GPU-1 on n7 nlp"
    link = "https://docs.example/data-loader"
    assert text.body == f"The data loader is too slow: {link}\n1. LowOfu (r1)"
    page = message(finding, form="html", parts=parts).body
    assert f'<a href="{link}">The data loader is too slow</a>' in page
    assert "<ol><li>LowOfu (r1)</li></ol>" in page


@pytest.mark.parametrize(
    ("text", "words_"),
    [
        ("{{#first}}", "line 1: {{#first}} is never closed"),
        ("{{/first}}", "{{/first}} closes nothing that is open"),
        ("a\n\n{{#first}}{{#cause}}{{/first}}{{/cause}}", "{{/first}} closes cause"),
        ("{{ no tag", "'{{ no tag' is not a tag"),
        ("{{colour}}", "unknown name 'colour'; known: against, "),
        ("x" * 70_000, "longer than 65536 characters"),
    ],
)
def test_a_template_with_a_mistake_is_refused(text: str, words_: str) -> None:
    with pytest.raises(ValueError) as error:  # noqa: PT011 - the words are compared below
        parse_message_template(text)
    assert words_ in str(error.value)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-5, "0 s"), (59.9, "59 s"), (60, "1 min"), (3600, "1 h"), (4320, "1 h 12 min"),
     (86_400, "1 d"), (273_600, "3 d 4 h")],
)  # fmt: skip
def test_durations(seconds: float, text: str) -> None:
    assert shown.duration(seconds) == text


@pytest.mark.parametrize(
    ("ratio", "text"), [(0.0, "0 %"), (0.0123, "1.2 %"), (0.0996, "10 %"), (1.25, "125 %")]
)
def test_ratios(ratio: float, text: str) -> None:
    assert shown.percent(ratio) == text
