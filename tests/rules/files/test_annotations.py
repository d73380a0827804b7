"""Texts with placeholders: rendered for people, refused when they refer to nothing."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_ofu.rules.annotations import (
    FILTERS,
    TemplateMistake,
    duration_words,
    parse_template,
)


def render(text: str, value: float | None = 0.0834) -> str:
    template = parse_template(text, {"hw_id"})
    return template.render({"value": value, "rule": "Low"}, {"hw_id": "GPU-1"})


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("", ""),
        ("{{ $labels.hw_id }}: {{ $value | percent }}", "GPU-1: 8.34%"),
        ("{{$value}}", "0.0834"),
        ("{{ $rule }} {{ $threshold }}", "Low unknown"),
        ("{{ $labels.hw_id | percent }}", "GPU-1"),
        ("{ $value } is no placeholder", "{ $value } is no placeholder"),
    ],
)
def test_placeholders_are_filled(text: str, shown: str) -> None:
    assert render(text) == shown


@pytest.mark.parametrize(
    ("word", "value", "shown"),
    [
        ("hertz", 1.83e9, "1.83 GHz"),
        ("hertz", 900.0, "900 Hz"),
        ("bytes", 3 * 2**30, "3 GiB"),
        ("humanize", 1234567.0, "1.235 M"),
        ("humanize", 12.0, "12"),
        ("duration", 8160.0, "2h16m"),
        ("duration", 12.5, "12.5s"),
        ("duration", -90.0, "-1m30s"),
        ("watts", 693.2, "693.2 W"),
        ("celsius", 83.0, "83 °C"),
        ("percent", 1.5, "150%"),
        ("ratio", 2.0564, "2.06"),
        ("ratio", 0.4912, "0.491"),
    ],
)
def test_filters_show_values_in_their_unit(word: str, value: float, shown: str) -> None:
    assert render(f"{{{{ $value | {word} }}}}", value) == shown


def test_a_missing_value_is_unknown_and_never_a_number() -> None:
    assert render("{{ $value | percent }}", None) == "unknown"
    assert render("{{ $value | percent }}", math.nan) == "unknown"


@pytest.mark.parametrize(
    ("text", "offset", "words"),
    [
        ("x {{ $labels.hw_idd }}", 5, "refers to nothing; did you mean hw_id?"),
        ("{{ $vale }}", 3, r"\$vale refers to nothing; there are"),
        ("{{ value }}", 3, r"expected \$value"),
        ("{{ $value.__class__ }}", 3, r"expected \$value"),
        ("{{ $value | percnt }}", 12, "unknown filter 'percnt'; did you mean percent?"),
        ("{{ $value | hertz | eval }}", 20, "unknown filter 'eval'; there are"),
        ("{{ }}", 3, r"expected \$value"),
        ("ab {{ $value", 3, "'{{' stands alone"),
        ("ab }} c", 3, "'}}' stands alone"),
    ],
)
def test_what_refers_to_nothing_is_told_at_its_place(text: str, offset: int, words: str) -> None:
    with pytest.raises(TemplateMistake, match=words) as caught:
        parse_template(text, {"hw_id"})
    assert caught.value.offset == offset


@given(st.sampled_from(sorted(FILTERS)), st.floats())
def test_every_filter_takes_every_number(word: str, value: float) -> None:
    assert render(f"{{{{ $value | {word} }}}}", value)


@given(st.floats(0, 1e7))
def test_durations_in_words_are_right_to_the_second(seconds: float) -> None:
    words = duration_words(seconds)
    units = {"h": 3600, "m": 60, "s": 1, "d": 86400, "w": 604800}
    total, number = 0.0, ""
    for character in words:
        if character in units:
            total, number = total + float(number) * units[character], ""
        else:
            number += character
    assert abs(total - seconds) <= 0.5
