from __future__ import annotations

import pytest

from otel_ofu.evidence.flags.judge import seen_in
from tests.evidence.flags.looks import look


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("python t.py --enforce-eager", "set"),
        ("python t.py --enforce_eager", "set"),
        ("python t.py --enforce-eager=true", "set"),
        ("python t.py --enforce-eager --x 1", "set"),
        ("python t.py enforce-eager=true", "set"),
        ("python t.py --enforce-eager=false", None),
        ("python t.py --enforce-eager False", None),
        ("python t.py --no-enforce-eager", None),
        ("python t.py enforce-eager", None),
        ("python t.py", None),
        ("", None),
    ],
)
def test_a_switch(command: str, said: str | None) -> None:
    switch = look(where=["argv"], names=["--enforce-eager"], set=True)
    assert seen_in(switch, command.split()) == said


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("t.py --num_workers 0", "0"),
        ("t.py --num-workers=0", "0"),
        ("t.py --num_workers=8 --num_workers=0", "0"),
        ("t.py --num_workers -1", None),
        ("t.py --num_workers --x", None),
        ("t.py --num_workers", None),
        ("t.py --num_workers secret", None),
    ],
)
def test_an_option_with_a_value(command: str, said: str | None) -> None:
    option = look(where=["argv"], names=["--num-workers"], equals=[0])
    assert seen_in(option, command.split()) == said


def test_a_negative_number_is_a_value() -> None:
    assert seen_in(look(where=["argv"], names=["--x"], below=0), ["--x", "-3"]) == "-3"


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("/opt/nvidia/bin/nsys profile -o x python t.py", "nsys"),
        ("python /usr/bin/nsys launch x", "nsys"),
        ("nsys stats x", None),
        ("python t.py nsys profile", None),
        ("mynsys profile", None),
    ],
)
def test_a_program_with_its_command(command: str, said: str | None) -> None:
    program = look(where=["argv"], programs=["nsys"], followed_by=["profile", "launch"])
    assert seen_in(program, command.split()) == said


def test_words_count_only_in_a_row() -> None:
    words = look(where=["argv"], words=["-m", "cProfile"])
    assert seen_in(words, ["python", "-m", "cProfile", "t.py"]) == "-m cProfile"
    assert seen_in(words, ["python", "-m", "t", "cProfile"]) is None
    assert seen_in(words, ["python", "-m"]) is None
