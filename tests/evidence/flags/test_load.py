from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from otel_ofu.evidence.flags import load_flags
from otel_ofu.model.errors import ConfigError

GOOD = """
flags:
  - id: OURS
    severity: S3
    look: [{where: [env], names: [OUR_DEBUG], set: true}]
    mechanism: Ours.
    sources: [https://example.com]
"""


def write(folder: Path, text: str) -> Path:
    path = folder / "ours.yaml"
    path.write_text(textwrap.dedent(text))
    return path


def test_a_users_file_adds_to_what_is_shipped(tmp_path: Path) -> None:
    book, shipped = load_flags([write(tmp_path, GOOD)]), load_flags()
    assert "OUR_DEBUG" in book.variables - shipped.variables
    assert book.flags[:-1] == shipped.flags


def test_a_users_flag_takes_the_place_of_the_shipped_one(tmp_path: Path) -> None:
    text = GOOD.replace("OURS", "OMP_NUM_THREADS").replace("S3", "S0")
    book = load_flags([write(tmp_path, text)])
    flag = next(flag for flag in book.flags if flag.id == "OMP_NUM_THREADS")
    assert flag.mechanism == "Ours."
    assert flag not in book.watched
    assert "OUR_DEBUG" not in book.variables  # what is not to be flagged is not read


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("S3", "S9", ":4:15: unknown value 'S9'; one of: S0, S1, S2, S3, S4"),
        ("[env]", "[enviro]", "unknown value 'enviro'"),
        ("set: true", "", ":5:12: expected one test of the value, found none"),
        ("set: true", "set: true, above: 0", "found set, above"),
        ("set: true", "equls: [1]", ":5:47: unknown key 'equls'; did you mean equals?"),
        ("[OUR_DEBUG]", "['A B']", ":5:35: not a name of an environment variable"),
        ("names: [OUR_DEBUG], set: true", "programs: [x]", "argv and ancestor alone"),
        ("names: [OUR_DEBUG], set: true", "set: true", "one of names, programs and words"),
        ("[env], names: [OUR_DEBUG]", "[status], names: [Uid]", "expected one of: TracerPid"),
        ("[env], names", "[maps, env], names", None),
        ("[env]", "[ancestor]", "ancestor needs programs or words"),
        ("OURS", "'a b'", ":3:9: expected letters, digits and _"),
        ("[https://example.com]", "[]", "expected at least one https:// address"),
        ("https:", "http:", ":7:15: expected an https:// address"),
        ("Ours.", "''", "expected one sentence"),
        ("S3", "S3\n    requires: [rich]", "unknown fact rich; known: "),
        ("flags:", "flag:", "unknown key 'flag'; did you mean flags?"),
    ],
)
def test_a_mistake_is_told_with_its_place(
    tmp_path: Path, old: str, new: str, message: str | None
) -> None:
    path = write(tmp_path, GOOD.replace(old, new))
    if message is None:
        load_flags([path])
        return
    with pytest.raises(ConfigError) as caught:
        load_flags([path])
    assert message in str(caught.value)


def test_all_mistakes_of_all_files_are_told_at_once(tmp_path: Path) -> None:
    path = write(tmp_path, GOOD.replace("S3", "S9") + GOOD.split("\n", 2)[2].replace("S3", "S8"))
    with pytest.raises(ConfigError) as caught:
        load_flags([path, tmp_path / "none.yaml"])
    assert len(caught.value.problems) == 3


def test_a_flag_that_stands_twice_in_a_file_is_a_mistake(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="OURS is listed twice"):
        load_flags([write(tmp_path, GOOD + GOOD.split("\n", 2)[2])])
