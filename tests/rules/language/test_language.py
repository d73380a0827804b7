from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_ofu.catalog.registry import load_registry
from otel_ofu.model import EntityKind
from otel_ofu.rules.language.language import MAX_WINDOWS, parse_condition
from otel_ofu.rules.language.parsing import MAX_DEPTH, LanguageError
from otel_ofu.rules.language.printing import duration_text, to_text
from otel_ofu.rules.language.syntax import (
    Aggregate,
    And,
    Arithmetic,
    Boolean,
    Comparator,
    Compare,
    Expression,
    FlagCondition,
    Latest,
    Negative,
    Not,
    Number,
    Or,
    Over,
    Relation,
    Sign,
    Span,
    comparisons,
    walk,
)
from tests.properties import examples
from tests.rules.trees import conditions

REGISTRY = load_registry()
KINDS: tuple[EntityKind, ...] = ("gpu", "job", "node")


def parse(text: str, each: EntityKind = "gpu") -> Expression:
    return parse_condition(text, each, REGISTRY)


def mistakes(text: str, each: EntityKind = "gpu") -> list[tuple[int, str]]:
    with pytest.raises(LanguageError) as caught:
        parse(text, each)
    return [(m.offset, m.message) for m in caught.value.mistakes]


def test_a_condition_becomes_a_typed_tree() -> None:
    assert parse("avg(ofu, 10m) < 15% and not flag(NCCL_DEBUG)").root == And(
        (
            Compare(Comparator.LESS, Over("avg", "ofu", 600.0), Number(0.15, "1")),
            Not(FlagCondition("NCCL_DEBUG")),
        )
    )


def test_and_binds_tighter_than_or_and_products_tighter_than_sums() -> None:
    tree = parse("ofu < 1 or ofu < 2 and ofu < 3").root
    assert isinstance(tree, Or)
    assert isinstance(tree.operands[1], And)
    compared = parse("1 + 2 * -3 - 4 > 0").root
    assert isinstance(compared, Compare)
    product = Arithmetic(Sign.MULTIPLY, Number(2.0), Negative(Number(3.0)))
    inner = Arithmetic(Sign.ADD, Number(1.0), product)
    assert compared.left == Arithmetic(Sign.SUBTRACT, inner, Number(4.0))


def test_group_functions_take_the_gpu_of_a_job_or_its_peers() -> None:
    peers = parse("sm_clock < 90% * peers.median(avg(sm_clock, 5m offset 1h))").root
    median = Aggregate(
        Relation.PEERS,
        "median",
        Over("avg", "sm_clock", 300.0, 3600.0),
    )
    right = Arithmetic(Sign.MULTIPLY, Number(0.9, "1"), median)
    assert peers == Compare(Comparator.LESS, Latest("sm_clock"), right)
    share = parse("gpus.quantile(0.9, ofu) > 5%", "job").root
    assert isinstance(share, Compare)
    assert share.left == Aggregate(Relation.GPUS, "quantile", Latest("ofu"), 0.9)


def test_equal_sub_expressions_are_equal_wherever_they_stand() -> None:
    root = parse("avg(ofu, 5m) < 1 and 2 > avg( ofu , 300s )").root
    overs = [node for node in walk(root) if isinstance(node, Over)]
    assert len(overs) == 2
    assert len(set(overs)) == 1
    assert overs[0].span != overs[1].span


def test_spans_point_at_the_text_of_each_node() -> None:
    text = "avg(ofu, 10m) < 15% and  peers.max(gpu_util) > 0.5"
    spans = {node.span for node in walk(parse(text).root)}
    assert Span(0, 13) in spans
    assert Span(16, 3) in spans
    assert Span(25, 19) in spans


def test_the_comparisons_of_a_verdict_are_those_outside_groups() -> None:
    root = parse("not (ofu < 1 or flag(X)) and peers.count(gpu_util < 2) > 3").root
    assert [to_text(leaf) for leaf in comparisons(root)] == [
        "ofu < 1",
        "flag(X)",
        "peers.count(gpu_util < 2) > 3",
    ]


@pytest.mark.parametrize(
    ("text", "offset", "message"),
    [
        ("avg(ofu, 10) < 1", 9, "expected a duration such as 10m"),
        ("avg(ofu, 0s) < 1", 9, "a window of no length: expected a duration such as 10m"),
        ("avg(ofu, 40d) < 1", 9, "looks back more than 30 days, the most allowed"),
        ("avg(ofu, 1d offset 30d) < 1", 9, "looks back more than 30 days, the most allowed"),
        ("avg(ofu) < 1", 0, "avg needs a metric and a window: avg(metric, 10m)"),
        ("avg(ofu + 1, 5m) < 1", 4, "a window is over one metric, not over an expression"),
        ("ofu < sm_clock", 0, "cannot compare a ratio and Hz"),
        ("ofu < 1 + 5m + power", 6, "cannot add s and W"),
        ("sm_clok > 1", 0, "unknown metric sm_clok; did you mean sm_clock"),
        ("hw.power > 3", 0, "hw.power is an OpenTelemetry name; in rules write power"),
        ("throttled > 0", 0, "throttled needs its label: write throttled:<ofu.throttle.reason>"),
        ("ofu:x > 0", 0, "ofu has no labels: write ofu"),
        ("avg(energy, 5m) > 3", 4, "energy only ever grows: use rate or increase, not avg"),
        ("rate(power, 5m) > 3", 5, "power is not a counter: use avg, min or max, not rate"),
        ("average(ofu, 5m) > 3", 0, "unknown function average"),
        ("quantile(95, ofu, 5m) > 1", 9, "a quantile is a number from 0 to 1, such as 0.95"),
        ("a.avg(ofu, 5m) > 1", 0, "unknown 'a' before the dot"),
        ("gpus.avg(ofu) > 1", 0, "`gpus.` stands in job and node rules"),
        ("peers.avg(ofu < 1) > 1", 10, "avg needs a number; only count takes a condition"),
        ("peers.mode(ofu) > 1", 0, "unknown function mode of a group"),
        ("job.ofu > 1", 0, "ofu is a metric of a gpu: write ofu"),
        ("export_queue_size:a > 1", 0, "export_queue_size:a is about the agent itself"),
        ("flag(a, b)", 0, "flag takes one name"),
        ("ofu", 0, "a condition holds or not: compare this with something"),
        ("ofu and ofu < 1", 0, "`and` joins conditions"),
        ("(ofu < 1) + 1 > 2", 1, "a condition stands where a number is needed"),
        ("ofu < 1e999", 6, "1e999 is too large a number"),
        ("1s < 9999999999999999d", 5, "9999999999999999d is longer than 3650 days"),
        ("ofu < 5m offset 3m", 9, "unexpected 'offset'"),
        ("abs(5m offset 3m) < 1", 4, "`offset` stands after the window of a function only"),
        ("ofu < ", 5, "the expression ends too early: expected a metric"),
        ("", 0, "the expression ends too early: expected a metric"),
        ("(ofu < 3", 8, "the expression ends too early: expected ')'"),
        ("ofu < 3)", 7, "unexpected ')': there is no '(' before it"),
        ("ofu 3", 4, "unexpected '3': expected an operator such as <, and, + before it"),
        ("ofu < 10x", 6, "'10x' is neither a number nor a duration such as 30s, 5m or 2h"),
        ("1 < ofu < 2", 8, "comparisons do not chain: write a < b and b < c"),
        ("ofu = 3", 4, "unexpected '=': write == to compare"),
        ("ofu < 3 && ofu > 2", 8, "unexpected '&': write `and`"),
        ("ofu < 5 %", 8, "unexpected '%': write a percentage as 15%, without a space"),
        ("ofu[5m] < 3", 3, "unexpected '[': write a window as avg(metric, 10m)"),
    ],
)
def test_a_mistake_is_told_in_plain_words_at_its_place(
    text: str, offset: int, message: str
) -> None:
    found = mistakes(text)
    assert found[0][0] == offset
    assert found[0][1].startswith(message)
    assert len(found) == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ofu < 1", "ofu is a metric of a gpu: write gpus.avg(ofu)"),
        ("peers.avg(ofu) < 1", "`peers.` stands in gpu rules only; in a job rule write gpus.avg"),
        ("flag(X)", "flags belong to GPUs: write gpus.count(flag(X)) > 0"),
        ("job.x < 1", "`job.` stands in gpu rules only; in a job rule write x"),
    ],
)
def test_a_job_rule_says_how_to_reach_its_gpus(text: str, message: str) -> None:
    assert mistakes(text, "job") == [(0, message)]


def test_all_mistakes_of_one_text_are_told_at_once() -> None:
    found = mistakes("ofu_typo < 1 and sm_clok > 3 or avg(ofu, 3) < sm_clock")
    assert [offset for offset, _ in found] == [0, 17, 41]


def test_units_follow_products_quotients_and_rates() -> None:
    parse("rate(energy, 5m) > power")
    parse("rate(throttle_time:thermal, 5m) > 10%")
    parse("increase(throttle_time:thermal, 10m) > 60s")
    parse("sm_clock / reference_clock < 90%")
    parse("rate(sm_cycles_active, 5m) / rate(sm_cycles_elapsed, 5m) < ofu")
    parse("sm_clock * 10s > 5")
    assert mistakes("sm_clock * 10s > 5m")[0][1] == "cannot compare a ratio and s"


@pytest.mark.parametrize(
    "text",
    [
        "(" * (MAX_DEPTH + 1) + "ofu" + ")" * (MAX_DEPTH + 1) + " < 1",
        "not " * 500 + "ofu < 1",
        "-" * 2000 + "1 < 1",
        "1 + " * 200 + "1 < ofu",
        "(" * 3999,
    ],
)
def test_deep_nesting_is_refused(text: str) -> None:
    assert mistakes(text)[0][1] == f"nested deeper than {MAX_DEPTH}, the most allowed"


def test_ten_thousand_brackets_are_refused_by_length() -> None:
    text = "(" * 10_000 + "ofu" + ")" * 10_000
    assert mistakes(text) == [(0, "20,003 characters long; at most 4,000 are allowed")]


@pytest.mark.parametrize("text", ["9" * 3_900 + "d < 1s", "9" * 3_900, "a" * 3_900, "9" * 99 + "x"])
def test_long_words_are_cut_in_messages(text: str) -> None:
    assert len(mistakes(text)[0][1]) < 130


def test_too_many_windows_are_refused() -> None:
    text = " and ".join(f"avg(ofu, {n}s) < 1" for n in range(1, MAX_WINDOWS + 2))
    assert mistakes(text) == [(0, "51 different windows; at most 50 are allowed")]


def test_long_conjunctions_are_no_nesting() -> None:
    root = parse(" and ".join(["ofu < 1"] * 300)).root
    assert isinstance(root, And)
    assert len(root.operands) == 300


@given(st.sampled_from(KINDS).flatmap(lambda each: st.tuples(st.just(each), conditions(each))))
@examples(3)
def test_printed_trees_parse_to_themselves(case: tuple[EntityKind, Boolean]) -> None:
    each, root = case
    assert parse(to_text(root), each).root == root


_WORDS = st.sampled_from(
    [
        "ofu",
        "energy",
        "xid:79",
        "job.",
        "peers.median(",
        "avg(",
        "quantile(",
        "flag(",
        "abs(",
        "(",
        ")",
        ",",
        "<",
        "<=",
        "==",
        "+",
        "-",
        "*",
        "/",
        "%",
        "and",
        "or",
        "not",
        "offset",
        "5m",
        "1h30m",
        "15%",
        "0.5",
        "1e9",
        "1e999",
        "10x",
        "=",
        "&",
        "§",
        "é",
        "\t",
        "\n",
        "\0",
        "\xa0",
        "\ud800",
    ]
)


@given(st.one_of(st.text(max_size=60), st.lists(_WORDS, max_size=12).map(" ".join)))
@examples(2)
def test_any_text_is_a_tree_or_a_language_error(text: str) -> None:
    try:
        root = parse(text).root
    except LanguageError as error:
        found = error.mistakes
    else:
        found = ()
        assert parse(to_text(root)).root == root
    assert all(0 <= m.offset <= len(text) and m.message for m in found)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(600, "10m"), (90, "90s"), (1.5, "1500ms"), (7200, "2h"), (5400, "90m"), (0, "0s")],
)
def test_durations_print_in_the_largest_whole_unit(seconds: float, text: str) -> None:
    assert duration_text(seconds) == text
