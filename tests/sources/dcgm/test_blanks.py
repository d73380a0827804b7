from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_ofu.sources.dcgm.codes import BlankKind, blank_reason


@given(st.floats(min_value=-1e14, max_value=1.4e14))
def test_doubles_below_the_first_blank_are_values(value: float) -> None:
    assert blank_reason(value) is None


@given(st.floats(min_value=2.0**47, allow_infinity=True))
def test_doubles_from_the_first_blank_on_are_none(value: float) -> None:
    assert blank_reason(value) is not None


@given(st.integers(min_value=0x7FFFFFFFFFFFFFF0, max_value=2**63 - 1))
def test_integers_from_the_first_blank_on_are_none(value: int) -> None:
    assert blank_reason(value) is not None


@given(st.integers(min_value=-(2**63), max_value=0x7FFFFFFFFFFFFFF0 - 1))
def test_other_integers_are_values_but_for_the_four_of_32_bits(value: int) -> None:
    assert (blank_reason(value) is None) == (not 0x7FFFFFF0 <= value <= 0x7FFFFFF3)


@pytest.mark.parametrize("distance", list(BlankKind))
def test_each_type_tells_the_reason_in_its_last_digit(distance: BlankKind) -> None:
    firsts: list[float] = [0x7FFFFFF0, 0x7FFFFFFFFFFFFFF0, 2.0**47]
    assert [blank_reason(f + distance) for f in firsts] == [distance] * 3


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<<<NULL>>>", BlankKind.PLAIN),
        ("<<<NOT_FOUND>>>", BlankKind.NOT_FOUND),
        ("<<<NOT_SUPPORTED>>>", BlankKind.NOT_SUPPORTED),
        ("<<<NOT_PERM>>>", BlankKind.NOT_PERMITTED),
        ("<<<NEW_IN_9>>>", BlankKind.PLAIN),
        ("NVIDIA <<<", None),
        ("", None),
    ],
)
def test_texts(text: str, expected: BlankKind | None) -> None:
    assert blank_reason(text) == expected


def test_nothing_is_a_plain_blank() -> None:
    assert blank_reason(None) is BlankKind.PLAIN
