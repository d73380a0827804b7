"""Numbers as programs of any locale print them: their value, or none; never a thousand times it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_ofu.mfu.logs.numbers import mark_of, number_at, number_before

amounts = st.floats(0.0, 1e9, allow_nan=False)


def value(text: str) -> float | None:
    number = number_at(text.encode(), 0)
    return None if number is None else number.value(mark_of([number]))


def german(text: str) -> str:
    return text.translate(str.maketrans(",.", ".,"))


@given(amounts, st.sampled_from(["{:.2f}", "{:,.2f}", "{:.4f}", "{:.1f}", "{:e}", "{}"]))
def test_a_number_with_a_decimal_point_is_read_back(amount: float, form: str) -> None:
    text = form.format(amount)
    assert value(text) == pytest.approx(float(text.replace(",", "")))


@given(amounts, st.sampled_from(["{:.2f}", "{:,.2f}", "{:.4f}", "{:.1f}"]))
def test_a_number_with_a_decimal_comma_is_read_back(amount: float, form: str) -> None:
    text = form.format(amount)
    assert value(german(text)) == pytest.approx(float(text.replace(",", "")))


@given(st.floats(0.0, 100.0), st.integers(0, 6), st.sampled_from(["%", " %", "\xa0%", "\u202f%"]))
def test_a_percentage_is_never_above_what_was_printed(
    amount: float, digits: int, sign: str
) -> None:
    text = f"{amount:.{digits}f}"
    for spelled in (text, german(text)):
        assert value(spelled + sign) == pytest.approx(float(text) / 100.0)


@given(st.integers(0, 10**15))
def test_thousands_are_read_back(amount: int) -> None:
    assert value(f"{amount:,}") == amount


@given(
    st.integers(1_000, 10**12), st.sampled_from(["_", "'", "\u2019", "\xa0", "\u202f", "\u2009"])
)
def test_thousands_set_apart_by_other_marks_are_no_number(amount: int, mark: str) -> None:
    assert value(f"{amount:,}".replace(",", mark)) is None


@given(st.text("0123456789.,eE%+- KMBGT_'x", max_size=60))
def test_no_text_breaks_it(text: str) -> None:
    raw = text.encode()
    for number in (number_at(raw, 0), number_before(raw, len(raw))):
        if number is not None:
            number.value(".")
            number.value(",")


@pytest.mark.parametrize("text", ["1" * 100_000, "1," * 50_000, "1.1" * 50_000, " " * 100_000])
def test_long_runs_are_no_number_and_cost_no_time(text: str) -> None:
    assert value(text) is None
    assert number_before(text.encode(), len(text)) is None
