from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from otel_ofu.jobs.procfs import MOST_BYTES, Denied, Gone, ProcFs
from tests.jobs.tree import Tree

# What setproctitle does: it writes over the block that the kernel shows as the environment.
OVERWRITES = """
import ctypes, sys
fields = open("/proc/self/stat").read().rpartition(")")[2].split()
start, end = int(fields[47]), int(fields[48])
ctypes.memset(start, 0, end - start)
print("ready", flush=True)
sys.stdin.read()
"""
WAITS = 'import sys; print("ready", flush=True); sys.stdin.read()'


@contextmanager
def child(program: str, environment: dict[str, str]) -> Iterator[int]:
    """A real process that has run `program` up to its "ready"."""
    with subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", program],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        yield process.pid
        process.kill()


def test_only_the_listed_variables_of_a_real_process_are_read() -> None:
    environment = {"SLURM_JOB_ID": "12", "HF_TOKEN": "secret", "SLURM_JOB_NAME": "a b=c"}
    with child(WAITS, environment) as pid:
        found = ProcFs().environment(pid, ["SLURM_JOB_ID", "SLURM_JOB_NAME", "ABSENT"])
    assert found.values == {"SLURM_JOB_ID": "12", "SLURM_JOB_NAME": "a b=c"}
    assert not found.wiped


def test_a_real_process_that_overwrote_its_environment_is_wiped() -> None:
    with child(OVERWRITES, {"SLURM_JOB_ID": "12", "HOME": "/"}) as pid:
        found = ProcFs().environment(pid, ["SLURM_JOB_ID"])
    assert found.values == {}
    assert found.wiped


def test_stat_and_cgroup_of_a_real_process() -> None:
    with child(WAITS, {"A": "1"}) as pid:
        stat = ProcFs().stat(pid)
        lines = ProcFs().cgroup(pid)
    assert stat.parent == os.getpid()
    assert stat.start_ticks > 0
    assert not stat.ended
    assert all(line.path.startswith("/") for line in lines)
    assert lines


def test_a_process_that_ended_is_gone() -> None:
    with child(WAITS, {"A": "1"}) as pid:
        pass
    with pytest.raises(Gone):
        ProcFs().stat(pid)


def test_a_process_that_is_not_waited_for_has_ended() -> None:
    with child(WAITS, {"A": "1"}) as pid:
        os.kill(pid, 9)
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        assert ProcFs().stat(pid).ended


def test_names_with_spaces_and_brackets_do_not_move_the_fields(tree: Tree) -> None:
    tree.process(7, parent=3, start_ticks=99)
    assert (ProcFs(tree.proc).stat(7).parent, ProcFs(tree.proc).stat(7).start_ticks) == (3, 99)


@pytest.mark.parametrize("block", [b"", b"\0\0\0\0", b"train: step 5\0\0\0\0", b"lr=0.1\0\0\0"])
def test_a_block_without_variables_is_wiped(tree: Tree, block: bytes) -> None:
    tree.process(7, block)
    assert ProcFs(tree.proc).environment(7, ["SLURM_JOB_ID"]).wiped


@pytest.mark.parametrize(
    ("block", "value"),
    [
        (b"A=1\0A=2\0", "1"),  # as getenv has it
        (b"A=\xff\0", "�"),
        (b"XA=1\0A=3\0", "3"),
        (b"A=" + b"x" * 2000 + b"\0", None),
        (b"A=\0B=1\0", None),
        (b"A\0B=1\0", None),
    ],
)
def test_the_value_of_a_variable(tree: Tree, block: bytes, value: str | None) -> None:
    tree.process(7, block)
    found = ProcFs(tree.proc).environment(7, ["A"])
    assert found.values.get("A") == value
    assert not found.wiped


@pytest.mark.parametrize("text", ["", "7 (x", "7 (x) R", "7 (x) R a b"])
def test_a_stat_that_is_none_is_refused(tree: Tree, text: str) -> None:
    tree.process(7)
    (tree.proc / "7" / "stat").write_text(text)
    with pytest.raises(Denied):
        ProcFs(tree.proc).stat(7)


def test_a_file_that_may_not_be_read_is_denied_in_the_systems_words(tree: Tree) -> None:
    tree.process(7)
    environ = tree.proc / "7" / "environ"
    environ.unlink()
    environ.mkdir()  # also refused to root, whom permissions do not stop
    with pytest.raises(Denied, match="Is a directory"):
        ProcFs(tree.proc).environment(7, ["A"])


def test_a_block_that_is_longer_than_can_be_is_not_read_in_half(tree: Tree) -> None:
    tree.process(7, b"A=12\0" + b"x" * MOST_BYTES)
    with pytest.raises(Denied, match="more than"):
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
    link.symlink_to("pid:[4026532999]")
    assert not ProcFs(tree.proc).is_hosts()
    tree.process(2)
    (tree.proc / "2" / "comm").write_text("kthreadd\n")  # the host's /proc, mounted elsewhere
    assert ProcFs(tree.proc).is_hosts()


def test_uptime_is_none_where_there_is_none(tmp_path: Path) -> None:
    assert ProcFs(tmp_path).uptime_s() is None
    assert ProcFs().uptime_s()
