from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_ofu.catalog.registry import load_registry
from otel_ofu.files.yaml import YamlFile, parse_yaml
from otel_ofu.model.errors import ConfigError
from otel_ofu.rules.files.mistakes import condition_in, line_column, problem_in

STEPS = ("rules", 0, "expr")


def rule_file(expr: str, before: str = "") -> YamlFile:
    return parse_yaml(f"{before}rules:\n  - alert: A\n    expr: {expr}\n    for: 1m\n", "r.yaml")


def character_at(file: YamlFile, place: tuple[int, int]) -> str:
    line, column = place
    return (file.text.split("\n")[line - 1] + "\n")[column - 1]


LAYOUTS = {
    "plain": "avg(ofu, 10) < 15%",
    "plain over lines": "avg(ofu,\n\n      10)\n      < 15%",
    "single quotes": "'avg(ofu, 10)\n      < 15%'",
    "double quotes": '"avg(\\u006ffu, \\\n      \\x310)\\t<\n      15%"',
    "literal block": "|  # why\n\n      avg(ofu,\n        10)  \n\n      < 15%\n",
    "folded block": ">-\n      avg(ofu,\n      10)\n\n        < 15%\n",
    "indented block": "|2-\n        avg(ofu, 10)\n          < 15%\n",
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_mistake_is_placed_in_the_file(layout: str) -> None:
    file = rule_file(LAYOUTS[layout], before="# Grüße 🎉\n")
    with pytest.raises(ConfigError) as caught:
        condition_in(file, STEPS, "gpu", load_registry())
    (problem,) = caught.value.problems
    assert problem.message == "expected a duration such as 10m"
    lines = file.text.splitlines()
    where = "x310" if layout == "double quotes" else "10)"
    line = next(i for i, text in enumerate(lines, 1) if where in text)
    column = lines[line - 1].index(where) + 1 - (layout == "double quotes")
    assert (problem.line, problem.column) == (line, column)
    assert problem.with_caret().splitlines()[1].strip() == lines[line - 1].strip()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_character_is_found_again(layout: str) -> None:
    file = rule_file(LAYOUTS[layout])
    value = file.scalars[STEPS].value
    for offset, character in enumerate(value):
        found = character_at(file, line_column(file, STEPS, offset))
        assert found in {character, "\\"} or character.isspace()


@given(
    st.text("ab'<% ", min_size=1).filter(lambda t: t.strip() == t and "  " not in t),
    st.integers(0, 8),
)
def test_quotes_double_inside_single_quotes(text: str, pad: int) -> None:
    quoted = "'" + text.replace("'", "''") + "'"
    file = rule_file(" " * pad + quoted)
    for offset, character in enumerate(text):
        assert character_at(file, line_column(file, STEPS, offset)) == character


@pytest.mark.parametrize("layout", ["plain", "single quotes", "literal block", "folded block"])
def test_the_end_is_behind_the_last_character(layout: str) -> None:
    file = rule_file(LAYOUTS[layout])
    value = file.scalars[STEPS].value
    line, column = line_column(file, STEPS, len(value.rstrip()))
    assert file.text.split("\n")[line - 1][: column - 1].endswith("15%")


@pytest.mark.parametrize("expr", ["''", '""', "|\n", ">-\n", ""])
def test_an_empty_condition_has_a_place(expr: str) -> None:
    file = rule_file(expr)
    problem = problem_in(file, STEPS, 0, "empty")
    assert problem.line in {3, 4}
    assert problem.path == "r.yaml"


def test_windows_line_ends_and_a_value_that_is_no_text() -> None:
    file = parse_yaml("rules:\r\n  - expr: |\r\n      ofu\r\n      < x\r\n", "r.yaml")
    assert line_column(file, STEPS, file.scalars[STEPS].value.index("x")) == (4, 9)
    problem = problem_in(rule_file("[1]"), STEPS, 3, "no text")
    assert (problem.line, problem.column) == (3, 11)
