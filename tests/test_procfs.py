from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from otel_ofu.procfs import LONGEST_VALUE, Denied, Gone, ProcFs, read_file
from tests.evidence.tree import Tree

# What setproctitle does: it writes over the block that the kernel shows as the environment.
OVERWRITES = """
import ctypes, sys
fields = open("/proc/self/stat").read().rpartition(")")[2].split()
ctypes.memset(int(fields[47]), 0, int(fields[48]) - int(fields[47]))
print("ready", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path)


def test_of_a_real_process_that_overwrote_its_environment_nothing_is_known() -> None:
    command = [sys.executable, "-I", "-S", "-c", OVERWRITES, "--option"]
    with subprocess.Popen(
        command, env={"A": "1"}, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        stat = ProcFs().stat(process.pid)
        found = ProcFs().environment(process.pid, ["A"])
        arguments = ProcFs().arguments(process.pid)
        process.kill()
    assert (stat.parent, stat.ended) == (os.getpid(), False)
    assert stat.env_start > 0
    assert (dict(found.values), found.wiped) == ({}, True)
    assert arguments[-1] == "--option"
    with pytest.raises(Gone):
        ProcFs().stat(process.pid)


def test_values_are_as_getenv_has_them_and_of_bounded_length(tree: Tree) -> None:
    tree.process(7, b"A=1\0A=2\0B=\0C\0D=" + b"x" * 20_000 + b"\0E=\xff\0")
    found = ProcFs(tree.proc).environment(7, ["A", "B", "C", "D", "E"])
    values = {"A": "1", "B": "", "D": "x" * LONGEST_VALUE, "E": "�"}
    assert (dict(found.values), found.wiped) == (values, False)


def test_names_with_spaces_and_brackets_do_not_move_the_fields(tree: Tree) -> None:
    tree.process(7, parent=3, start_ticks=99, ticks=5, env_start=77)
    stat = ProcFs(tree.proc).stat(7)
    assert (stat.parent, stat.start_ticks, stat.cpu_ticks, stat.env_start) == (3, 99, 5, 77)


@pytest.mark.parametrize("text", ["", "7 (x", "7 (x) R", "7 (x) R a b"])
def test_a_stat_in_another_form_is_denied(tree: Tree, text: str) -> None:
    tree.process(7)
    (tree.proc / "7" / "stat").write_text(text)
    with pytest.raises(Denied, match="not as the kernel writes it"):
        ProcFs(tree.proc).stat(7)


def test_a_read_is_bounded(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x" * 200_000)
    assert len(read_file(str(tmp_path / "file"), 100_000)) == 100_000


def test_a_file_that_may_not_be_read_is_denied_in_the_systems_words(tree: Tree) -> None:
    tree.process(7)
    tree.refuse(7, "environ")
    with pytest.raises(Denied, match="Is a directory"):
        ProcFs(tree.proc).environment(7, ["A"])


def test_a_namespace_of_its_own_is_told_from_the_hosts(tree: Tree) -> None:
    assert ProcFs(tree.proc).is_hosts()
    link = tree.proc / "self" / "ns" / "pid"
    link.unlink()
    assert not ProcFs(tree.proc).is_hosts()
    tree.write("/proc/2/comm", "kthreadd\n")  # the host's /proc, mounted elsewhere
    assert ProcFs(tree.proc).is_hosts()


def test_uptime_is_none_where_there_is_none(tmp_path: Path) -> None:
    assert ProcFs(tmp_path).uptime_s() is None
    assert ProcFs().uptime_s()
