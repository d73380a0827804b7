"""Matchers read as Alertmanager's do."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_ofu.notify.conditions import Matcher, parse_matcher


@pytest.mark.parametrize(
    ("text", "takes", "refuses"),
    [
        ('severity="critical"', "critical", "warning"),
        ("severity=critical", "critical", ""),
        ('severity != "critical"', "", "critical"),
        ('team=~"a|b"', "b", "ab"),
        ('team=~".+"', "x", ""),
        ('team!~"a.*"', "", "abc"),
        ('ofu.job.id="7"', "7", "8"),
        (r'path="a\"b\\c\nd"', 'a"b\\c\nd', "a"),
        ('empty=""', "", "x"),
    ],
)
def test_a_matcher_is_for_the_whole_value_and_absent_is_empty(
    text: str, takes: str, refuses: str
) -> None:
    matcher = parse_matcher(text)
    assert matcher.matches({matcher.name: takes})
    assert not matcher.matches({matcher.name: refuses})
    assert matcher.matches({}) is matcher.takes("")


@pytest.mark.parametrize("text", ["", "a", "=b", "1a=b", 'a="b', 'a=b"', 'a=~"("', "a b=c"])
def test_what_is_none_is_refused_with_what_is_allowed(text: str) -> None:
    with pytest.raises(ValueError, match=r"allowed|regular expression"):
        parse_matcher(text)


@given(st.text(), st.sampled_from(["=", "!="]))
def test_what_is_shown_reads_the_same(value: str, operator: str) -> None:
    matcher = Matcher("a", operator, value)  # type: ignore[arg-type]  # the operators above
    assert parse_matcher(str(matcher)) == matcher
