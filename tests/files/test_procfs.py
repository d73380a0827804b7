from __future__ import annotations

import os
from pathlib import Path

import pytest

from otel_ofu.files.procfs import (
    LONGEST_VALUE,
    MOST_BYTES,
    AccessDeniedError,
    ProcessGoneError,
    ProcFs,
    read_file,
)
from tests.evidence.tree import Tree
from tests.processes import OVERWRITES, WAITS, child


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path)


def test_only_the_listed_variables_of_a_real_process_are_read() -> None:
    environment = {"SLURM_JOB_ID": "12", "HF_TOKEN": "secret", "SLURM_JOB_NAME": "a b=c"}
    with child(WAITS, environment) as pid:
        found = ProcFs().environment(pid, ["SLURM_JOB_ID", "SLURM_JOB_NAME", "ABSENT"])
    assert found.values == {"SLURM_JOB_ID": "12", "SLURM_JOB_NAME": "a b=c"}
    assert not found.wiped


def test_of_a_real_process_that_overwrote_its_environment_nothing_is_known() -> None:
    with child(OVERWRITES, {"A": "1", "HOME": "/"}, "--option") as pid:
        found = ProcFs().environment(pid, ["A"])
        arguments = ProcFs().arguments(pid)
    assert (dict(found.values), found.wiped) == ({}, True)
    assert arguments[-1] == "--option"


def test_stat_and_cgroup_of_a_real_process() -> None:
    with child(WAITS, {"A": "1"}) as pid:
        stat = ProcFs().stat(pid)
        lines = ProcFs().cgroup(pid)
    assert (stat.parent, stat.ended) == (os.getpid(), False)
    assert min(stat.start_ticks, stat.env_start) > 0
    assert all(line.path.startswith("/") for line in lines)
    assert lines


def test_a_process_that_ended_is_gone() -> None:
    with child(WAITS, {"A": "1"}) as pid:
        pass
    with pytest.raises(ProcessGoneError):
        ProcFs().stat(pid)


def test_a_process_that_is_not_waited_for_has_ended() -> None:
    with child(WAITS, {"A": "1"}) as pid:
        os.kill(pid, 9)
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        assert ProcFs().stat(pid).ended


def test_values_are_as_getenv_has_them_and_of_bounded_length(tree: Tree) -> None:
    tree.process(7, b"XA=0\0A=1\0A=2\0B=\0C\0D=" + b"x" * 20_000 + b"\0E=\xff\0")
    found = ProcFs(tree.proc).environment(7, ["A", "B", "C", "D", "E"])
    values = {"A": "1", "B": "", "D": "x" * LONGEST_VALUE, "E": "�"}
    assert (dict(found.values), found.wiped) == (values, False)


@pytest.mark.parametrize(
    "block", [b"", b"\0\0\0\0", b"train: step 5\0\0\0\0", b"lr=0.1\0\0\0", b"LR=0.1\0\0\0"]
)
def test_a_block_that_was_written_over_says_nothing(tree: Tree, block: bytes) -> None:
    tree.process(7, block)
    found = ProcFs(tree.proc).environment(7, ["LR"])
    assert (dict(found.values), found.wiped) == ({}, True)


def test_names_with_spaces_and_brackets_do_not_move_the_fields(tree: Tree) -> None:
    tree.process(7, parent=3, start_ticks=99, ticks=5, env_start=77)
    stat = ProcFs(tree.proc).stat(7)
    assert (stat.parent, stat.start_ticks, stat.cpu_ticks, stat.env_start) == (3, 99, 5, 77)


@pytest.mark.parametrize("text", ["", "7 (x", "7 (x) R", "7 (x) R a b"])
def test_a_stat_in_another_form_is_denied(tree: Tree, text: str) -> None:
    tree.process(7)
    (tree.proc / "7" / "stat").write_text(text)
    with pytest.raises(AccessDeniedError, match="not as the kernel writes it"):
        ProcFs(tree.proc).stat(7)


def test_a_file_that_is_longer_than_can_be_is_not_read_in_half(tree: Tree) -> None:
    tree.process(7, b"A=12\0" + b"x" * MOST_BYTES)
    with pytest.raises(AccessDeniedError, match=f"more than {MOST_BYTES} bytes"):
        ProcFs(tree.proc).environment(7, ["A"])
    stat = str(tree.proc / "7" / "stat")
    size = len(read_file(stat))
    assert len(read_file(stat, size)) == size
    with pytest.raises(AccessDeniedError, match=f"more than {size - 1} bytes"):
        read_file(stat, size - 1)


def test_a_file_that_may_not_be_read_is_denied_in_the_systems_words(tree: Tree) -> None:
    tree.process(7)
    tree.refuse(7, "environ")
    with pytest.raises(AccessDeniedError, match="Is a directory"):
        ProcFs(tree.proc).environment(7, ["A"])


@pytest.mark.parametrize("option", ["hidepid=2", "hidepid=invisible", "gid=4,hidepid=1"])
def test_hidepid_is_seen(tree: Tree, option: str) -> None:
    mounts = tree.proc / "self" / "mounts"
    mounts.write_text(f"sysfs /sys sysfs rw 0 0\nproc /proc proc rw,nosuid,{option} 0 0\n")
    assert ProcFs(tree.proc).hides_processes()
    mounts.write_text("proc /proc proc rw,nosuid,hidepid=0 0 0\nproc /x proc rw 0 0\n")
    assert not ProcFs(tree.proc).hides_processes()


def test_a_namespace_of_its_own_is_told_from_the_hosts(tree: Tree) -> None:
    assert ProcFs(tree.proc).is_hosts()
    link = tree.proc / "self" / "ns" / "pid"
    link.unlink()
    assert not ProcFs(tree.proc).is_hosts()
    link.symlink_to("pid:[4026532999]")
    assert not ProcFs(tree.proc).is_hosts()
    tree.write("/proc/2/comm", "kthreadd\n")  # the host's /proc, mounted elsewhere
    assert ProcFs(tree.proc).is_hosts()


def test_uptime_is_none_where_there_is_none(tmp_path: Path) -> None:
    assert ProcFs(tmp_path).uptime_s() is None
    assert ProcFs().uptime_s()
