from __future__ import annotations

import pytest

from otel_ofu.evidence.flags.judge import is_in
from tests.evidence.flags.looks import look


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("python t.py --enforce-eager", True),
        ("python t.py --enforce_eager", True),
        ("python t.py --enforce-eager=true", True),
        ("python t.py --enforce-eager --x 1", True),
        ("python t.py enforce-eager=true", True),
        ("python t.py --enforce-eager=false", False),
        ("python t.py --enforce-eager False", False),
        ("python t.py --no-enforce-eager", False),
        ("python t.py enforce-eager", False),
        ("python t.py", False),
        ("", False),
    ],
)
def test_a_switch(command: str, *, expected: bool) -> None:
    switch = look(where=["argv"], names=["--enforce-eager"], set=True)
    assert is_in(switch, command.split()) is expected


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("t.py --num_workers 0", True),
        ("t.py --num-workers=0", True),
        ("t.py --num_workers=8 --num_workers=0", True),
        ("t.py --num_workers -1", False),
        ("t.py --num_workers --x", False),
        ("t.py --num_workers", False),
        ("t.py --num_workers secret", False),
    ],
)
def test_an_option_with_a_value(command: str, *, expected: bool) -> None:
    option = look(where=["argv"], names=["--num-workers"], equals=[0])
    assert is_in(option, command.split()) is expected


def test_a_negative_number_is_a_value() -> None:
    assert is_in(look(where=["argv"], names=["--x"], below=0), ["--x", "-3"])


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("/opt/nvidia/bin/nsys profile -o x python t.py", True),
        ("python /usr/bin/nsys launch x", True),
        ("nsys stats x", False),
        ("python t.py nsys profile", False),
        ("mynsys profile", False),
    ],
)
def test_a_program_with_its_command(command: str, *, expected: bool) -> None:
    program = look(where=["argv"], programs=["nsys"], followed_by=["profile", "launch"])
    assert is_in(program, command.split()) is expected


def test_words_count_only_in_a_row() -> None:
    words = look(where=["argv"], words=["-m", "cProfile"])
    assert is_in(words, ["python", "-m", "cProfile", "t.py"])
    assert not is_in(words, ["python", "-m", "t", "cProfile"])
    assert not is_in(words, ["python", "-m"])
