from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_ofu.evidence.flags.catalogue import FlagMatcher
from otel_ofu.evidence.flags.judge import ANOTHER, SET, reported_value
from tests.evidence.flags.looks import look


@pytest.mark.parametrize(
    ("test", "value", "said"),
    [
        ({"equals": ["detail"]}, "DETAIL", "detail"),
        ({"equals": ["detail"]}, " Detail ", "detail"),
        ({"equals": ["detail"]}, "details", None),
        ({"equals": [1]}, "1", "1"),
        ({"equals": [1]}, "01", None),
        ({"equals": [""]}, "", ""),
        ({"not_equals": ["warn"]}, "warn", None),
        ({"not_equals": ["warn"]}, "secret", ANOTHER),
        ({"set": True}, "secret", SET),
        ({"set": True}, "", SET),
        ({"has": ["all", "coll"]}, "INIT,COLL", "coll"),
        ({"has": ["all", "coll"]}, "COLL ALL", "all,coll"),
        ({"has": ["coll"]}, "^INIT,COLL", None),
        ({"has": ["coll"]}, "COLLNET", None),
        ({"contains": ["--xla_dump_to="]}, "--a --xla_dump_to=/secret", "--xla_dump_to="),
        ({"starts_with": ["^"]}, "^NVLS", "^"),
        ({"starts_with": ["^"]}, "NVLS", None),
        ({"below": 100}, "50", "50"),
        ({"below": 100}, "100", None),
        ({"below": 100}, "fifty", None),
        ({"below": 100}, "", None),
        ({"below": 100}, "nan", None),
        ({"below": 100}, "1_0", None),
        ({"above": 0}, "1.5", "1.5"),
        ({"above": 0}, "-1", None),
        ({"above": 1, "below": 3}, "2", "2"),
        ({"above": 1, "below": 3}, "4", None),
        ({"above": 0}, "9" * 400, None),
        ({"option": "max_mb", "below": 64}, "a:1,max_mb:8", "8"),
        ({"option": "max_mb", "below": 64}, "max_mb=8;b", "8"),
        ({"option": "max_mb", "below": 64}, "max_mb:512", None),
        ({"option": "max_mb", "below": 64}, "other_max_mb:8", None),
        ({"option": "max_mb", "below": 64}, "max_mb", None),
    ],
)
def test_what_is_told_of_a_value(test: dict[str, object], value: str, said: str | None) -> None:
    assert reported_value(look(**test), value) == said


LOOKS = st.sampled_from(
    [
        look(equals=["detail", 1]),
        look(not_equals=["warn"]),
        look(set=True),
        look(has=["all", "coll"]),
        look(contains=["libasan", "dump="]),
        look(starts_with=["^", "=lo"]),
        look(below=5.0),
        look(option="mb", above=0.0),
    ]
)
VALUES = st.text(max_size=60) | st.sampled_from(
    ["detail", "COLL,x", "/home/me/libasan.so", "^x", "3", "mb:7,k:s"]
)


@given(LOOKS, VALUES)
def test_nothing_but_listed_text_numbers_and_fixed_words_is_told(
    look: FlagMatcher, value: str
) -> None:
    said = reported_value(look, value)
    words = [*look.equals, *look.has, *look.contains, *look.starts_with]
    listed = {str(word) for word in words} | {SET, ANOTHER, "all,coll"}
    assert said is None or said in listed or float(said) == float(said)


@given(LOOKS, VALUES)
def test_case_and_blanks_around_do_not_matter(look: FlagMatcher, value: str) -> None:
    plain = value.encode("ascii", "ignore").decode()
    assert reported_value(look, plain) == reported_value(look, f" {plain.upper()} ")
