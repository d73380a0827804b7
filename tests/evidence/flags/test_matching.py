from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_ofu.evidence.flags.catalogue import FlagMatcher
from otel_ofu.evidence.flags.judge import passes
from tests.evidence.flags.looks import look


@pytest.mark.parametrize(
    ("test", "value", "expected"),
    [
        ({"equals": ["detail"]}, "DETAIL", True),
        ({"equals": ["detail"]}, " Detail ", True),
        ({"equals": ["detail"]}, "details", False),
        ({"equals": [1]}, "1", True),
        ({"equals": [1]}, "01", False),
        ({"equals": [""]}, "", True),
        ({"not_equals": ["warn"]}, "warn", False),
        ({"not_equals": ["warn"]}, "secret", True),
        ({"set": True}, "secret", True),
        ({"set": True}, "", True),
        ({"has": ["all", "coll"]}, "INIT,COLL", True),
        ({"has": ["all", "coll"]}, "COLL ALL", True),
        ({"has": ["coll"]}, "^INIT,COLL", False),
        ({"has": ["coll"]}, "COLLNET", False),
        ({"contains": ["--xla_dump_to="]}, "--a --xla_dump_to=/secret", True),
        ({"starts_with": ["^"]}, "^NVLS", True),
        ({"starts_with": ["^"]}, "NVLS", False),
        ({"below": 100}, "50", True),
        ({"below": 100}, "100", False),
        ({"below": 100}, "fifty", False),
        ({"below": 100}, "", False),
        ({"below": 100}, "nan", False),
        ({"below": 100}, "1_0", False),
        ({"above": 0}, "1.5", True),
        ({"above": 0}, "-1", False),
        ({"above": 1, "below": 3}, "2", True),
        ({"above": 1, "below": 3}, "4", False),
        ({"above": 0}, "9" * 400, False),
        ({"option": "max_mb", "below": 64}, "a:1,max_mb:8", True),
        ({"option": "max_mb", "below": 64}, "max_mb=8;b", True),
        ({"option": "max_mb", "below": 64}, "max_mb:512", False),
        ({"option": "max_mb", "below": 64}, "other_max_mb:8", False),
        ({"option": "max_mb", "below": 64}, "max_mb", False),
    ],
)
def test_the_test_of_a_value(test: dict[str, object], value: str, *, expected: bool) -> None:
    assert passes(look(**test), value) is expected


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
def test_case_and_blanks_around_do_not_matter(look: FlagMatcher, value: str) -> None:
    plain = value.encode("ascii", "ignore").decode()
    assert passes(look, plain) is passes(look, f" {plain.upper()} ")
