from __future__ import annotations

from pathlib import Path

import pytest

from otel_ofu.net.secrets import MOST_BYTES, read_secret, read_token


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "secret"


def test_a_secret_is_a_line_and_a_token_a_word(path: Path) -> None:
    path.write_text("\n  pass w\u00f6rd \n", "utf-8")
    assert read_secret(str(path)) == "pass w\u00f6rd"
    path.write_text("a.b-c=\n")
    assert read_token(str(path)) == "a.b-c="


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "is empty"),
        (b" \n\n", "is empty"),
        (b"hidden\nhidden", "expected one line"),
        (b"hidden\rhidden", "expected one line"),
        (b"hidden\0", "expected one line"),
        (b"hidden\xff", "not UTF-8"),
        (b"hidden".rjust(MOST_BYTES + 1, b"x"), f"longer than {MOST_BYTES} bytes"),
    ],
)
def test_what_is_no_secret_is_refused_and_not_told(path: Path, content: bytes, why: str) -> None:
    path.write_bytes(content)
    with pytest.raises(ValueError, match=why) as caught:
        read_secret(str(path))
    assert str(path) in str(caught.value)
    assert "hidden" not in str(caught.value)


@pytest.mark.parametrize("content", ["hidden words", "hidd\u00e9n"])
def test_what_cannot_stand_in_a_header_is_no_token(path: Path, content: str) -> None:
    path.write_text(content, "utf-8")
    assert read_secret(str(path)) == content
    with pytest.raises(ValueError, match="expected one token") as caught:
        read_token(str(path))
    assert content not in str(caught.value)


def test_a_file_that_is_not_there_or_none_is_told_in_the_systems_words(path: Path) -> None:
    with pytest.raises(ValueError, match=f"{path}: No such file"):
        read_secret(str(path))
    with pytest.raises(ValueError, match=f"{path.parent}: Is a directory"):
        read_secret(str(path.parent))
