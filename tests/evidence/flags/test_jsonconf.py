from __future__ import annotations

import pytest

from otel_ofu.model import GapReason
from tests.evidence.flags.rig import Rig
from tests.evidence.tree import Tree, gpu

SWITCHED_ON = '{"flops_profiler": {"enabled": true, "token": "x"}, "wall_clock_breakdown": false}'
KEY = "flag:DEEPSPEED_TIMERS"


@pytest.mark.parametrize(
    "command", ["--deepspeed_config /ds.json", "--deepspeed=/ds.json", "--deepspeed ds.json"]
)
def test_a_switch_in_the_file_that_the_command_line_names(tree: Tree, command: str) -> None:
    folder = tree.process(7, {}, ["t.py", *command.split()])
    (folder / "cwd").symlink_to("/")
    tree.inside(7, "/ds.json", SWITCHED_ON)
    assert Rig(tree).seen() == {"DEEPSPEED_TIMERS"}


@pytest.mark.parametrize(
    "text",
    [
        '{"wall_clock_breakdown": false}',
        '{"flops_profiler": true}',
        '{"flops_profiler": {"enabled": [true]}}',
        '{"nested": {"wall_clock_breakdown": true}}',
        "[]",
    ],
)
def test_files_in_which_nothing_is_on(tree: Tree, text: str) -> None:
    tree.process(7, {}, ["t.py", "--deepspeed_config", "/ds.json"])
    tree.inside(7, "/ds.json", text)
    assert Rig(tree).device().values[KEY] == 0.0


@pytest.mark.parametrize("text", [None, "", "{", '{"a":' * 5000, "\xff"])
def test_a_file_that_cannot_be_read_is_a_gap(tree: Tree, text: str | None) -> None:
    tree.process(7, {}, ["t.py", "--deepspeed_config", "/ds.json"])
    if text is not None:
        tree.inside(7, "/ds.json", text)
    assert Rig(tree).device().gaps[KEY].reason is GapReason.NOT_PERMITTED


@pytest.mark.parametrize("command", ["t.py", "t.py --deepspeed", "t.py --deepspeed stage2"])
def test_without_a_file_nothing_is_on(tree: Tree, command: str) -> None:
    tree.process(7, {}, command.split())
    assert Rig(tree).scan().devices[gpu(0)].values[KEY] == 0.0
