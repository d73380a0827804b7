"""Problems as a terminal shows them."""

from __future__ import annotations

from otel_ofu.model.errors import Problem


def test_control_characters_and_turned_text_are_escaped() -> None:
    problem = Problem("a\x1b[31m.yaml", 2, 9, "unknown key '\u202eoof'\r\x07")
    assert str(problem) == r"a\x1b[31m.yaml:2:9: unknown key '\u202eoof'\r\x07"


def test_the_caret_stays_below_its_character() -> None:
    line = "\tkey: \u2066a\u2069 wrong"
    message, shown, caret = Problem("a.yaml", 1, 11, "no", line).with_caret().splitlines()
    assert message == "a.yaml:1:11: no"
    assert shown == "  \tkey: \\u2066a\\u2069 wrong"
    assert caret == "  \t" + " " * 19 + "^"
    assert shown[caret.index("^") :] == "wrong"
    assert (
        Problem("a", 1, 1, "no", "Überlauf 5 µs").with_caret().splitlines()[1] == "  Überlauf 5 µs"
    )
