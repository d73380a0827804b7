import math
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from otel_ofu.sources.scrape.parse import (
    EXCERPT_CHARACTERS,
    MOST_PROBLEMS,
    LineProblem,
    Sample,
    parse,
)


def only(line: str) -> Sample:
    page = parse(line + "\n")
    assert page.malformed == 0, page.problems
    (sample,) = page.samples
    return sample


@pytest.mark.parametrize(
    ("line", "name", "labels", "value", "timestamp_s"),
    [
        ("up 1", "up", {}, 1.0, None),
        ("up\t1", "up", {}, 1.0, None),
        ("up{} 1", "up", {}, 1.0, None),
        ("up 1 1700000000123", "up", {}, 1.0, 1700000000.123),
        ('up{a="b"} +Inf', "up", {"a": "b"}, math.inf, None),
        ('up{a="b",} 1e-3', "up", {"a": "b"}, 0.001, None),
        ('up { a = "b" , c = "d" } 1', "up", {"a": "b", "c": "d"}, 1.0, None),
        ('up{a="b", c="d"} 1', "up", {"a": "b", "c": "d"}, 1.0, None),
        ('up{a="x}y{z"} 1', "up", {"a": "x}y{z"}, 1.0, None),
        (
            r'up{a="q\"q",b="s\\s",c="n\nn"} 1',
            "up",
            {"a": 'q"q', "b": r"s\s", "c": "n\nn"},
            1,
            None,
        ),
        ('up{a="b"} 1\r', "up", {"a": "b"}, 1.0, None),
        ('up{a=""} 1', "up", {"a": ""}, 1.0, None),
        ('{"http.server",a="b"} 1', "http.server", {"a": "b"}, 1.0, None),
        ('{"http.server"} 1', "http.server", {}, 1.0, None),
        ('up{"k8s.pod.name"="p"} 1', "up", {"k8s.pod.name": "p"}, 1.0, None),
        ("up 9223372036854775794", "up", {}, 9.223372036854775794e18, None),
    ],
)
def test_reads_every_form_of_a_valid_line(
    line: str, name: str, labels: dict[str, str], value: float, timestamp_s: float | None
) -> None:
    sample = only(line)
    assert (sample.name, dict(sample.labels), sample.value) == (name, labels, value)
    assert sample.timestamp_s == timestamp_s


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        (r'path="C:\dir\new",b="1"', {"path": "C:\\dir\new", "b": "1"}),
        ('model="say "hi" now",b="1"', {"model": 'say "hi" now', "b": "1"}),
        (r'path="C:\",b="1"', {"path": "C:\\", "b": "1"}),
        ('a="x", y",b="1"', {"a": 'x", y', "b": "1"}),
        ('b="1",a="ends with ""', {"a": 'ends with "', "b": "1"}),
    ],
)
def test_reads_label_values_that_were_not_escaped(labels: str, expected: dict[str, str]) -> None:
    assert dict(only(f"up{{{labels}}} 1").labels) == expected


def test_the_value_is_kept_as_it_stands_on_the_page() -> None:
    assert only("up 9223372036854775794").text == "9223372036854775794"


@pytest.mark.parametrize(
    "line",
    [
        "up",
        "up{",
        'up{a="b"}',
        'up{a="b" 1',
        'up}a="b"{ 1',
        "up{a=b} 1",
        'up{a="b",a="c"} 1',
        'up{,a="b"} 1',
        "up{a} 1",
        "up 1 noon",
        "up 1 2 3",
        "up 1_000",
        "up one",
        "1up 1",
        '{a="b"} 1',
        'up{"down",a="b"} 1',
        "<html>",
    ],
)
def test_a_malformed_line_is_counted_and_the_rest_goes_on(line: str) -> None:
    page = parse(f"first 1\n{line}\n# comment\n\nlast 2\n")
    assert page.malformed == 1
    assert [str(problem) for problem in page.problems] == [f"line 2: {line}"]
    good = [s.name for s in page.samples if not math.isnan(s.value)]
    assert good == ["first", "last"]


def test_words_in_place_of_a_value_are_a_sample_without_a_number() -> None:
    page = parse('util{gpu="0"} ERROR - FAILED TO CONVERT TO STRING\n')
    assert page.malformed == 1
    (sample,) = page.samples
    assert math.isnan(sample.value)
    assert sample.text == "ERROR - FAILED TO CONVERT TO STRING"


def test_malformed_lines_are_remembered_with_their_numbers_and_cut() -> None:
    page = parse("a 1\nbad{" + "x" * 500 + "\nworse{\n")
    assert page.malformed == 2
    first, second = page.problems
    assert (first.line, second) == (2, LineProblem(3, "worse{"))
    assert len(first.text) == EXCERPT_CHARACTERS


def test_a_page_of_nothing_but_faults_keeps_a_few_and_counts_all() -> None:
    page = parse("bad{\n" * (2 * MOST_PROBLEMS))
    assert (page.malformed, len(page.problems)) == (2 * MOST_PROBLEMS, MOST_PROBLEMS)


@pytest.mark.parametrize(
    "line",
    [
        'up{gpu="0" UUID="GPU-a"} 1',
        'up{gpu="0"UUID="GPU-a"} 1',
        'up{gpu="0",UUID="GPU-a" modelName="H100",b="1"} 1',
        'up{gpu="0"} 1 # {trace_id="x"} 0.67 1 # {again="y"} 1',
    ],
)
def test_a_label_is_never_part_of_the_one_before_it(line: str) -> None:
    page = parse(f"{line}\n")
    assert page.malformed == 1 or page.samples[0].labels == {"gpu": "0"}
    assert all(" " not in value for s in page.samples for value in s.labels.values())


@pytest.mark.parametrize(
    ("line", "labels", "timestamp_s"),
    [
        ('up{a="b"} 1410 # {trace_id="x"} 0.67 1790000000', {"a": "b"}, None),
        ('up{a="b"} 1410 1700000000123 # {trace_id="x"} 0.67', {"a": "b"}, 1700000000.123),
        ('up{a="# {x}"} 1410 # {} 0.67', {"a": "# {x}"}, None),
        ('up 1410 # {trace_id="}"} 0.67', {}, None),
    ],
)
def test_the_value_of_an_exemplar_is_not_that_of_the_sample(
    line: str, labels: dict[str, str], timestamp_s: float | None
) -> None:
    sample = only(line)
    assert (sample.value, dict(sample.labels), sample.timestamp_s) == (1410, labels, timestamp_s)


def test_a_hash_in_a_label_is_no_exemplar() -> None:
    assert dict(only('up{a="one # {two",b="#"} 1').labels) == {"a": "one # {two", "b": "#"}


def test_open_metrics_counts_its_stamps_in_seconds() -> None:
    assert parse("up 1 1700000000.5\n# EOF\n").samples[0].timestamp_s == 1700000000.5
    assert parse("up 1 1700000000500\n").samples[0].timestamp_s == 1700000000.5


def test_a_byte_order_mark_belongs_to_no_name() -> None:
    assert [s.name for s in parse("\ufeffup 1\ndown 2\n").samples] == ["up", "down"]


def test_a_last_line_without_end_is_not_read_for_it_may_be_cut_off() -> None:
    page = parse("up 1\ndown 0.4")
    assert [s.name for s in page.samples] == ["up"]
    assert page.cut_off == LineProblem(2, "down 0.4")


@pytest.mark.parametrize("text", ["up 1\n", "up 1\n  ", "up 1\n# EOF", ""])
def test_what_needs_no_end_is_not_cut_off(text: str) -> None:
    assert parse(text).cut_off is None


def test_a_sample_has_the_number_of_its_line() -> None:
    assert [s.line for s in parse("# HELP\nup 1\n\ndown 2\n").samples] == [2, 4]


def test_unwanted_names_are_passed_over_even_when_their_labels_are_broken() -> None:
    page = parse('other{broken 1\nwanted{a="b"} 2\nplain 3\n', {"wanted"})
    assert [s.name for s in page.samples] == ["wanted"]
    assert page.malformed == 0
    assert page.others == ("other", "plain")


def test_a_nan_is_a_value_and_not_a_malformed_line() -> None:
    page = parse("a NaN\nb -nan\n")
    assert page.malformed == 0
    assert all(math.isnan(sample.value) for sample in page.samples)


@pytest.mark.parametrize(
    "line",
    [
        "up{" + 'a="' * 50_000,
        'up{a="' + "\\" * 200_000,
        'up{a="' + '" ' * 100_000,
        'up{a="' + '",b' * 70_000,
        "up{" + ",".join(f'l{i}="v"' for i in range(20_000)) + "} 1",
        "up{" + " " * 200_000,
        "{" * 200_000,
        "up{" + '"#' * 100_000,
        "up 1" + " # {" * 50_000,
    ],
)
def test_no_line_takes_more_than_linear_time(line: str) -> None:
    started_s = time.process_time()
    parse(line + "\n")
    # Quadratic work on these takes minutes; the limit is no measurement.
    assert time.process_time() - started_s < 10


NAMES = st.from_regex(r"[a-zA-Z_:][a-zA-Z0-9_:]{0,10}", fullmatch=True)
LABEL_NAMES = st.from_regex(r"[a-zA-Z_][a-zA-Z0-9_]{0,8}", fullmatch=True).filter(
    lambda name: not name.startswith("__")
)
TEXT = st.text(
    st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"], exclude_characters="\x85"),
    max_size=12,
) | st.sampled_from(['a"b', "a\\b", "a\nb", "}", "{", ",", " ", '",b="', "\\"])


@st.composite
def lines(draw: st.DrawFn) -> str:
    labels = draw(st.dictionaries(LABEL_NAMES, TEXT, max_size=4))
    comma = draw(st.sampled_from([",", ", "]))
    block = comma.join(f'{name}="{escaped(value)}"' for name, value in labels.items())
    if draw(st.booleans()) and labels:
        block += ","
    braces = f"{{{block}}}" if draw(st.booleans()) or labels else ""
    value = draw(st.floats().map(repr) | st.integers(-(2**70), 2**70).map(str))
    stamp = draw(st.none() | st.integers(0, 10**13))
    return f"{draw(NAMES)}{braces} {value}" + (f" {stamp}" if stamp is not None else "")


def escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


@given(st.lists(lines(), max_size=6))
def test_agrees_with_prometheus_client_on_valid_pages(page: list[str]) -> None:
    text = "".join(f"{line}\n" for line in page)
    expected = [
        (s.name, s.labels, repr(float(s.value)), s.timestamp)
        for family in text_string_to_metric_families(text)
        for s in family.samples
    ]
    found = parse(text)
    assert found.malformed == 0, found.problems
    ours = [(s.name, dict(s.labels), repr(s.value), s.timestamp_s) for s in found.samples]
    assert sorted(ours, key=repr) == sorted(expected, key=repr)


@given(st.text(max_size=200))
def test_never_raises_whatever_the_text(text: str) -> None:
    page = parse(text)
    assert (page.malformed > 0) == bool(page.problems)
