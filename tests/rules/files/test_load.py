"""Rule files: every mistake with its place, all of them at once, or all rules."""

from __future__ import annotations

import math
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_ofu.catalog.registry import load_registry
from otel_ofu.model.errors import ConfigError
from otel_ofu.rules.files import RuleSet, SilenceCondition, load_rules, rules_from_text
from otel_ofu.rules.files.cases import samples
from otel_ofu.rules.files.mistakes import duration_s, share
from otel_ofu.rules.language.syntax import Expression

REGISTRY = load_registry()
BAD = Path(__file__).parents[2] / "golden" / "rules" / "bad"
GOOD = """
groups:
  - name: efficiency
    interval: 1m
    rules:
      - alert: LowOfu
        each: gpu
        expr: >-
          avg(ofu, 10m) < 15%
          and avg(gpu_util, 10m) > 90%
        for: 10m
        clear: avg(ofu, 5m) > 20%
        keep_firing_for: 5m
        min_coverage: 75%
        min_peers: 6
        limit: 9
        labels: {severity: critical, team: "{{ $labels.ofu_job_id }}"}
        annotations: {summary: "{{ $labels.hw_id }}", more: "{{ $labels.team }} {{ $rule }}"}
        causes: [debug_flag]
        shadow: true
        link: https://example.org
        tests:
          - {name: a, series: {ofu: 0x20, gpu1-2.ofu: 8%x2, gpu3.power: 1+0.5x2}, fires_at: 20m}
"""


def problems(text: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        rules_from_text(text, REGISTRY)
    return [str(problem) for problem in caught.value.problems]


def one(rules: str) -> str:
    return f"groups:\n  - name: g\n    rules:\n      - {rules}\n"


@pytest.mark.parametrize("path", sorted(BAD.glob("*.yaml")), ids=lambda path: path.stem)
def test_every_mistake_is_told_at_its_place(path: Path) -> None:
    expected = [
        line.removeprefix("# expected: ").replace("FILE", str(path))
        for line in path.read_text("utf-8").splitlines()
        if line.startswith("# expected: ")
    ]
    assert expected
    with pytest.raises(ConfigError) as caught:
        load_rules([path], REGISTRY)
    told = [f"{p.line}:{p.column}: {p.message}" for p in caught.value.problems]
    assert told == expected


def test_a_good_file_becomes_rules() -> None:
    rules = rules_from_text(GOOD, REGISTRY)
    (rule,) = rules
    assert isinstance(rule.condition, Expression)
    assert rule.condition.each == "gpu"
    assert rules.group_of(rule).interval_s == 60.0
    assert (rule.timing.for_s, rule.timing.keep_firing_for_s) == (600.0, 300.0)
    assert rule.timing.missing_timeout_s == 300.0
    assert (rule.limits.min_coverage, rule.limits.min_peers, rule.limit) == (0.75, 6, 9)
    assert (rule.severity, rule.shadow, rule.causes) == ("critical", True, ("debug_flag",))
    (case,) = rule.tests
    assert case.step_s == 60.0
    assert case.fires_at_s == {"gpu0": 1200.0}
    assert case.series["gpu0", "ofu"] == (0.0,) * 20  # 0x20 is no hexadecimal number
    assert case.series["gpu2", "ofu"] == (0.08, 0.08)
    assert case.series["gpu3", "power"] == (1.0, 1.5)
    assert rule.position.line == 6


def test_all_files_are_looked_at_before_anything_is_told(tmp_path: Path) -> None:
    first, second, third = (tmp_path / name for name in ("a.yaml", "b.yaml", "c.yml"))
    first.write_text(one("{alert: A, each: gpu, expr: ofu < }"))
    second.write_bytes(b"groups: \xff\n")
    third.write_text(one("{alert: A, each: gpu, expr: ofu < 1}").replace("name: g", "name: h"))
    (tmp_path / "causes.yaml").write_text("not: rules\n")
    (tmp_path / "notes.txt").write_text("not rules\n")
    with pytest.raises(ConfigError) as caught:
        load_rules([tmp_path], REGISTRY)
    assert [(Path(p.path).name, p.line) for p in caught.value.problems] == [
        ("a.yaml", 4),
        ("b.yaml", 1),
    ]


def test_a_fifo_among_the_files_is_told_as_a_mistake_of_that_file(tmp_path: Path) -> None:
    (tmp_path / "good.yaml").write_text(GOOD)
    os.mkfifo(tmp_path / "pipe.yaml")
    with pytest.raises(ConfigError) as caught:
        load_rules([tmp_path], REGISTRY)
    assert [str(p) for p in caught.value.problems] == [
        f"{tmp_path / 'pipe.yaml'}: not a regular file"
    ]


def test_names_are_unique_over_all_files(tmp_path: Path) -> None:
    for name in ("a", "b"):
        text = one("{alert: A, each: gpu, expr: ofu < 1}").replace("name: g", f"name: {name}")
        (tmp_path / f"{name}.yaml").write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_rules([tmp_path], REGISTRY)
    (problem,) = caught.value.problems
    assert problem.message == f"a rule 'A' is already there, at {tmp_path / 'a.yaml'}:4"


def test_a_file_that_is_not_there_is_one_problem(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        load_rules([tmp_path / "none.yaml"], REGISTRY)


def test_without_a_rule_on_silence_there_is_a_built_in_one(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(one("{alert: A, each: gpu, expr: ofu < 1}"))
    assert [rule.name for rule in load_rules([path], REGISTRY)] == ["A", "EntitySilent"]
    path.write_text(one("{alert: Mine, each: gpu, silent_for: 5m}"))
    (mine,) = load_rules([path], REGISTRY)
    assert mine.condition == SilenceCondition(300.0)


def test_causes_are_checked_against_those_that_there_are(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(one("{alert: A, each: gpu, expr: ofu < 1, causes: [debug_flg]}"))
    assert load_rules([path], REGISTRY).find("A")
    with pytest.raises(ConfigError, match="unknown cause 'debug_flg'; did you mean debug_flag"):
        load_rules([path], REGISTRY, causes=["debug_flag"])


def test_identity_is_name_and_labels_and_not_the_condition() -> None:
    def rule(text: str) -> RuleSet:
        return rules_from_text(one(text), REGISTRY)

    (a,) = rule("{alert: A, each: gpu, expr: ofu < 1, labels: {x: y}}")
    (b,) = rule("{alert: A, each: gpu, expr: ofu <  2, labels: {x: y}, for: 5m}")
    (c,) = rule("{alert: A, each: gpu, expr: ofu < 1.0, labels: {x: z}}")
    assert a.identity == b.identity != c.identity
    assert a.condition_id == c.condition_id != b.condition_id


# ---- what nobody should write ----


def test_ten_thousand_parentheses_are_refused() -> None:
    text = one(f"{{alert: A, each: gpu, expr: '{'(' * 10_000}ofu{')' * 10_000} < 1'}}")
    assert problems(text) == [
        "rules.yaml:4:38: 20,007 characters long; at most 4,000 are allowed",
    ]
    deep = one(f"{{alert: A, each: gpu, expr: '{'(' * 1_000}ofu{')' * 1_000} < 1'}}")
    assert "nested deeper than 40" in problems(deep)[0]


def test_a_file_of_fifty_megabytes_is_refused_unread(tmp_path: Path) -> None:
    path = tmp_path / "huge.yaml"
    with path.open("wb") as file:
        file.truncate(50 * 2**20)
    with pytest.raises(ConfigError, match="larger than 1 MiB"):
        load_rules([path], REGISTRY)


WORDS = st.sampled_from(
    [
        "groups:",
        "  - name: g",
        "    rules:",
        "      - alert: A",
        "        each: gpu",
        "        expr: avg(ofu, 10m) < 15%",
        "        expr: |",
        "          ofu <",
        "        for: 10m",
        "        tests:",
        "          - {name: a, series: {ofu: 1x3}}",
        "        labels: {severity: '{{ $labels.hw_id }}'}",
        "        annotations:",
        "          summary: '{{ $value | '",
        "\t- x",
        "&a *a",
        "{{{{",
        "? !!python/object:os.system x",
        "'",
        "- - - -",
        "null",
        "2026-01-01",
        "..: ..",
        "<<: *x",
        "\u2028\x85",
    ]
)


@given(st.one_of(st.lists(WORDS, max_size=14).map("\n".join), st.text(max_size=60)))
def test_whatever_is_written_gives_rules_or_problems(text: str) -> None:
    rules = attempt(text)
    lines = len(text.splitlines()) + 2
    if isinstance(rules, ConfigError):
        assert rules.problems
        assert all(p.line <= lines and p.with_caret() for p in rules.problems)


@given(st.integers(0, len(GOOD) - 1), st.text("\t{}[]'\"&*:%(),<>-x0\n é", max_size=3))
def test_a_good_file_with_a_slip_gives_rules_or_problems(at: int, slip: str) -> None:
    text = GOOD[:at] + slip + GOOD[at + 1 :]
    rules = attempt(text)
    if isinstance(rules, ConfigError):
        assert all(problem.message for problem in rules.problems)


def attempt(text: str) -> RuleSet | ConfigError:
    """The rules, or what is wrong; anything else is a crash."""
    try:
        return rules_from_text(text, REGISTRY)
    except ConfigError as error:
        return error


def test_after_a_hundred_mistakes_the_rest_is_not_checked() -> None:
    rules = "\n      - ".join(f"{{alert: A{i}, each: gpu, expr: ofu < }}" for i in range(3_000))
    told = problems(one(rules))
    assert len(told) == 101
    assert told[-1].endswith("too many mistakes: the rest of the file was not checked")


def test_more_rules_than_anyone_has_are_refused() -> None:
    rules = "\n      - ".join(f"{{alert: A{i}, each: gpu, expr: ofu < 1}}" for i in range(2_001))
    (told,) = problems(one(rules))
    assert told.endswith("2,001 rules; at most 2,000 are allowed")


# ---- quantities ----


def test_durations_and_shares_are_read_or_refused() -> None:
    assert duration_s("1h30m") == 5400.0
    assert duration_s(0) == duration_s("0") == 0.0
    assert (share("50%"), share(0.25), share(1)) == (0.5, 0.25, 1.0)
    for wrong in ("10", "-5m", "5 m", "1.5h", "", "10m\n", "1000w"):
        with pytest.raises(ValueError, match=r"duration|longer than 90d"):
            duration_s(wrong)
    for wrong in ("101%", "-1", "half", "nan", "inf"):
        with pytest.raises(ValueError, match="from 0% to 100%"):
            share(wrong)


def test_samples_are_read_or_refused() -> None:
    assert samples("0.1x2 5 -1e3-10x2 50%x2") == (0.1, 0.1, 5.0, -1000.0, -1010.0, 0.5, 0.5)
    assert [math.isnan(value) for value in samples("_ 1 _x2")] == [True, False, True, True]
    for wrong in ("", "x3", "1x", "1xx2", "0.1 y", "5%+1x2", "nan"):
        with pytest.raises(ValueError, match="samples"):
            samples(wrong)
