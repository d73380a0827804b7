"""Every mistake in a YAML file is told with its place, all of them at once."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_ofu.files.yaml import convert, convert_usable, parse_yaml, read_yaml
from otel_ofu.files.yaml.parse import MAX_NODES
from otel_ofu.model.errors import ConfigError


class Endpoint(msgspec.Struct, forbid_unknown_fields=True):
    url: str
    retries: int = 3


class Settings(msgspec.Struct, forbid_unknown_fields=True):
    main: Endpoint | None = None
    more: list[Endpoint] = []
    on: bool = False


def problems(text: str | bytes) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        convert(parse_yaml(text, "x.yaml"), Settings)
    return [str(problem) for problem in caught.value.problems]


def test_a_good_file_becomes_a_value() -> None:
    file = parse_yaml("main: {url: http://a, retries: 1}\non: true\n", "x.yaml")
    assert convert(file, Settings) == Settings(Endpoint("http://a", 1), [], on=True)


def test_an_empty_file_is_all_defaults() -> None:
    assert convert(parse_yaml("# nothing yet\n", "x.yaml"), Settings) == Settings()


def test_all_mistakes_of_a_file_are_told_each_at_its_place() -> None:
    text = (
        "main: {url: 5, retries: x}\n"
        "more:\n"
        "  - url: 1\n"
        "  - retries: 3\n"
        "  - url: y\n"
        "    zz: 4\n"
        "  - url: good\n"
        "  - 5\n"
        "onn: true\n"
    )
    assert problems(text) == [
        "x.yaml:1:13: expected text, got a whole number",
        "x.yaml:1:25: expected a whole number, got text",
        "x.yaml:3:10: expected text, got a whole number",
        "x.yaml:4:5: the key 'url' is missing",
        "x.yaml:6:5: unknown key 'zz'; allowed: url, retries",
        "x.yaml:8:5: expected a mapping, got a whole number",
        "x.yaml:9:1: unknown key 'onn'; did you mean on?",
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("main:\n\turl: x\n", "x.yaml:2:1: a tab: YAML is indented with spaces"),
        ("on: true\non: false\n", "x.yaml:2:1: duplicate key 'on', first on line 1"),
        (
            "main: &a {url: x}\nmore: [*a]\n",
            "x.yaml:1:7: aliases are not supported; write the value out",
        ),
        ("main: !!python/object:os.system {}\n", "x.yaml:1:7: tags "),
        (
            "main: !secret x\n",
            "x.yaml:1:7: tags are not supported; put text that begins with ! in quotes",
        ),
        ("on: 2026-02-30\n", "x.yaml:1:5: expected true or false, got text"),
        (b"main: \xff\n", "x.yaml:1:7: not UTF-8: byte 0xff"),
        ("[1,2", "x.yaml:2:1: did not find expected ',' or ']'"),
        ("main: \x01", "x.yaml:1:7: character 1 is not allowed in YAML"),
        ("? [1]\n: 2\n", "x.yaml:1:3: a key must be plain text"),
        ("<<: {on: true}\n", "x.yaml:1:1: merge keys (<<) are not supported; write the keys out"),
        ("- 1", "x.yaml:1:1: expected a mapping, got a list"),
        ("on: yes\n", "x.yaml:1:5: expected true or false, got text"),
        ("a: 1\n---\nb: 2\n", "x.yaml:2:1: a second document; write one document in each file"),
    ],
)
def test_bad_yaml_is_one_clear_error(text: str | bytes, expected: str) -> None:
    assert problems(text)[0].startswith(expected)


def test_what_a_file_may_not_hold_hides_none_of_its_other_mistakes() -> None:
    text = (
        "on: true\n"
        "on: false\n"
        "more:\n"
        "  - {url: 1}\n"
        "  - !secret x\n"
        "  - {<<: {url: a}, url: b, retries: x}\n"
        "onn: 1\n"
    )
    assert problems(text) == [
        "x.yaml:2:1: duplicate key 'on', first on line 1",
        "x.yaml:4:11: expected text, got a whole number",
        "x.yaml:5:5: tags are not supported; put text that begins with ! in quotes",
        "x.yaml:6:6: merge keys (<<) are not supported; write the keys out",
        "x.yaml:6:37: expected a whole number, got text",
        "x.yaml:7:1: unknown key 'onn'; did you mean on?",
    ]


def test_the_first_of_two_keys_holds_for_the_checks_that_follow() -> None:
    value, problems = convert_usable(parse_yaml("on: true\non: 5\n", "x.yaml"), Settings)
    assert value.on
    assert [str(problem) for problem in problems] == [
        "x.yaml:2:1: duplicate key 'on', first on line 1"
    ]
    with pytest.raises(ConfigError, match=r"1:5: expected true or false"):
        convert_usable(parse_yaml("on: 5\n", "x.yaml"), Settings)


def test_deep_nesting_is_refused_not_followed() -> None:
    assert "nest" in problems("[" * 10_000)[0]
    assert "x.yaml:1:39: nested deeper than 32" in problems("main: " + "[" * 100 + "]" * 100)


def test_an_oversize_file_is_refused() -> None:
    assert problems(b"# " + b"x" * 5 * 2**20) == ["x.yaml: larger than 1 MiB, the most allowed"]


def test_a_file_that_is_not_there_is_named() -> None:
    with pytest.raises(ConfigError, match=r"^/nonexistent/x\.yaml: cannot be read: No such file"):
        read_yaml("/nonexistent/x.yaml")


def test_the_caret_stands_under_the_column() -> None:
    with pytest.raises(ConfigError) as caught:
        convert(parse_yaml("main: {url: 5}\n", "x.yaml"), Settings)
    assert caught.value.problems[0].with_caret() == (
        "x.yaml:1:13: expected text, got a whole number\n  main: {url: 5}\n              ^"
    )


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_what_is_no_regular_file_is_refused_not_waited_for(
    tmp_path: Path, make: Callable[[Path], None]
) -> None:
    path = tmp_path / "x.yaml"
    make(path)
    with pytest.raises(ConfigError, match=r"x\.yaml: not a regular file$"):
        read_yaml(path)


def test_a_device_and_a_socket_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^/dev/zero: not a regular file$"):
        read_yaml("/dev/zero")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s"))
        with pytest.raises(ConfigError, match=r"/s: not a regular file$"):
            read_yaml(tmp_path / "s")


@pytest.mark.parametrize("tiny", ["1,", "{},", "[],", "a: ,"])
def test_more_nodes_than_allowed_are_refused_before_any_is_kept(tiny: str) -> None:
    (only,) = problems(f"[{tiny * (MAX_NODES + 1)}]")
    assert only.endswith("more than 100,000 keys and values, the most allowed")


def test_as_many_nodes_as_allowed_are_read() -> None:
    text = f"[{'1,' * (MAX_NODES - 1)}]"
    assert len(parse_yaml(text, "x.yaml").tree) == MAX_NODES - 1
    with pytest.raises(ConfigError, match=r"^x\.yaml:1:200000: more than"):
        parse_yaml(f"[{'1,' * MAX_NODES}]", "x.yaml")


def test_a_file_that_is_all_mistakes_tells_the_first_hundred() -> None:
    assert len(problems("on: true\n" * 500)) == 100


def test_a_line_is_shown_without_the_password_of_a_url_and_the_caret_stays() -> None:
    text = "main: {url: 'http://u:p@ss/w@host/x', retries: bad}\n"
    with pytest.raises(ConfigError) as caught:
        convert(parse_yaml(text, "x.yaml"), Settings)
    shown = caught.value.with_carets().splitlines()
    assert shown[1:] == ["  main: {url: 'http://***@host/x', retries: bad}", " " * 44 + "^"]
    assert caught.value.problems[0].column == text.index("bad") + 1


@given(st.text() | st.binary())
def test_any_text_is_data_or_a_config_error_with_problems(text: str | bytes) -> None:
    found: tuple[object, ...] = ("data",)
    try:
        convert(parse_yaml(text, "x.yaml"), Settings)
    except ConfigError as error:
        found = error.problems
    assert found
