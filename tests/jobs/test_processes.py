"""What becomes of processes that cannot be seen, seen only in part, or seen no more."""

from __future__ import annotations

import gc
import logging
import subprocess
import sys
from pathlib import Path

import pytest

from otel_ofu.jobs import JobFinder, JobOwner, JobSettings
from otel_ofu.jobs.owner import Claim
from otel_ofu.jobs.processes import ProcessSnapshot
from otel_ofu.jobs.settings import KubernetesSettings
from tests.jobs.tree import CONTAINER, TICKS, UPTIME_S, Holder, MakeRig, Rig, Tree, gpu
from tests.processes import OVERWRITES, WAITS, child

STEP = "/system.slice/slurmstepd.scope/job_7/step_0/user/task_0"
IN_STEP = f"0::{STEP}"
JOB = {"SLURM_JOB_ID": "7", "SLURM_JOB_NAME": "pretrain"}
WIPED = b"\0\0\0\0"

# Its child overwrites its environment and ends when the launcher does.
LAUNCHES = f"""
import subprocess, sys
command = [sys.executable, "-I", "-S", "-c", {OVERWRITES!r}]
child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
child.stdout.readline()
print("ready", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def rig(make_rig: MakeRig) -> Rig:
    made = make_rig()
    made.holders = [Holder(gpu(0), 10)]
    return made


def unreadable(tree: Tree, pid: int) -> None:
    """Also to root, whom permissions do not stop."""
    environ = tree.proc / str(pid) / "environ"
    environ.unlink()
    environ.mkdir()


def test_a_process_that_ended_before_it_was_looked_at_owns_nothing(rig: Rig) -> None:
    assert rig.poll() == {}
    assert rig.finder.report().counts == {"process_ended": 1}


@pytest.mark.parametrize("value", ["", "7" * 1025])
def test_what_is_empty_or_longer_than_any_name_names_no_job(
    rig: Rig, tree: Tree, value: str
) -> None:
    tree.process(10, {**JOB, "SLURM_JOB_ID": value})
    assert rig.poll() == {}
    tree.process(10, {**JOB, "SLURM_JOB_ID": "7" * 1024}, start_ticks=5001)
    assert rig.one().attributes["ofu.job.id"] == "7" * 1024


@pytest.mark.parametrize("name", ["cgroup", "environ"])
def test_a_process_that_ends_between_two_files_owns_nothing(
    rig: Rig, tree: Tree, name: str
) -> None:
    tree.process(10, JOB, IN_STEP)
    (tree.proc / "10" / name).unlink()
    assert rig.poll() == {}
    assert rig.finder.report().counts == {"process_ended": 1}


def test_one_that_is_hidden_is_not_said_to_have_ended(rig: Rig, tree: Tree) -> None:
    (tree.proc / "self" / "mounts").write_text("proc /proc proc rw,hidepid=2 0 0\n")
    assert rig.poll() == {}
    assert "hidepid" in rig.finder.report().problems[0]
    assert "CAP_SYS_PTRACE" in rig.finder.report().problems[0]


def test_a_process_id_that_was_used_again_is_another_process(rig: Rig, tree: Tree) -> None:
    tree.process(10, {"SLURM_JOB_ID": "1"}, start_ticks=5000)
    assert rig.one().job_id == "1"
    tree.process(10, {"SLURM_JOB_ID": "2"}, start_ticks=6000)
    assert rig.one().job_id == "2"


def test_one_that_began_after_the_driver_listed_it_is_not_it(rig: Rig, tree: Tree) -> None:
    tree.process(10, JOB, start_ticks=int((UPTIME_S + 5) * TICKS))
    assert rig.poll() == {}
    assert rig.finder.report().counts == {"pid_reused": 1}


def test_a_process_that_moved_to_another_cgroup_is_looked_at_again(rig: Rig, tree: Tree) -> None:
    tree.process(10, {}, IN_STEP)
    assert rig.one().job_id == "7"
    tree.process(10, {}, IN_STEP.replace("job_7", "job_8"))
    assert rig.one().job_id == "8"


def test_what_is_known_of_a_living_process_is_not_read_again(rig: Rig, tree: Tree) -> None:
    tree.process(10, JOB, IN_STEP)
    assert rig.one().attributes["slurm.job.name"] == "pretrain"
    (tree.proc / "10" / "environ").write_bytes(WIPED)
    assert rig.one().attributes["slurm.job.name"] == "pretrain"
    assert rig.finder.report().problems == ()


def test_an_unreadable_environment_leaves_what_the_cgroup_says_and_is_told_once(
    rig: Rig, tree: Tree, caplog: pytest.LogCaptureFixture
) -> None:
    rig.holders = [Holder(gpu(n), 10 + n) for n in range(8)]
    for holder in rig.holders:
        tree.process(holder.pid, JOB, IN_STEP)
        unreadable(tree, holder.pid)
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            assert {owner.job_id for owners in rig.poll().values() for owner in owners} == {"7"}
    (problem,) = rig.finder.report().problems
    assert "not readable" in problem
    assert "(8 times)" in problem
    assert rig.finder.report().counts == {"environment_not_readable": 24}
    assert len(caplog.records) == 1


def test_a_wiped_environment_is_made_up_for_by_an_ancestor_in_the_same_job(
    rig: Rig, tree: Tree
) -> None:
    tree.process(10, WIPED, IN_STEP, parent=9)
    tree.process(9, {"PWD": "/"}, IN_STEP, parent=8)
    tree.process(8, JOB, IN_STEP, parent=7)
    assert rig.one().attributes["slurm.job.name"] == "pretrain"
    assert rig.finder.report().counts == {"environment_wiped": 1}


def test_what_an_ancestor_said_stays_when_it_has_ended(rig: Rig, tree: Tree) -> None:
    tree.process(10, WIPED, IN_STEP, parent=9)
    tree.process(9, JOB, IN_STEP, parent=1)
    assert rig.one().attributes["slurm.job.name"] == "pretrain"
    tree.ends(9)
    tree.process(10, WIPED, IN_STEP, parent=1)
    assert rig.one().attributes["slurm.job.name"] == "pretrain"


def test_an_ancestor_outside_of_the_container_says_nothing(rig: Rig, tree: Tree) -> None:
    tree.process(10, WIPED, f"0::/docker/{CONTAINER}", parent=9)
    tree.process(9, JOB, "0::/system.slice/docker.service")
    assert rig.one().source == "container"


def test_a_neighbour_in_the_container_makes_up_for_a_wiped_environment(
    rig: Rig, tree: Tree
) -> None:
    cgroup = f"/docker/{CONTAINER}"
    tree.process(10, WIPED, f"0::{cgroup}")
    tree.process(11, {"RAY_JOB_ID": "03000000"}, f"0::{cgroup}")
    tree.members(cgroup, 10, 999, 11)
    assert rig.one().job_id == "03000000"


def test_neighbours_in_a_login_session_are_strangers(rig: Rig, tree: Tree) -> None:
    session = "/user.slice/user-1000.slice/session-3.scope"
    tree.process(10, WIPED, f"0::{session}")
    tree.process(11, JOB, f"0::{session}")
    tree.members(session, 10, 11)
    assert rig.poll() == {}


def test_ancestors_that_go_round_in_a_circle_end(rig: Rig, tree: Tree) -> None:
    tree.process(10, WIPED, IN_STEP, parent=9)
    tree.process(9, {}, IN_STEP, parent=10)
    assert rig.one().job_id == "7"


def test_a_zombie_is_known_by_its_cgroup(rig: Rig, tree: Tree) -> None:
    tree.process(10, b"", IN_STEP, state="Z")
    assert rig.one().job_id == "7"
    assert rig.finder.report().counts == {"zombie": 1}


def test_a_zombie_keeps_what_was_known_of_it_alive(rig: Rig, tree: Tree) -> None:
    tree.process(10, JOB, IN_STEP)
    rig.poll()
    tree.process(10, b"", IN_STEP, state="Z")
    assert rig.one().attributes["slurm.job.name"] == "pretrain"


def test_in_a_pid_namespace_of_its_own_no_process_is_taken_for_another(
    make_rig: MakeRig, tree: Tree
) -> None:
    tree.process(10, JOB, IN_STEP)
    link = tree.proc / "self" / "ns" / "pid"
    link.unlink()
    link.symlink_to("pid:[4026532999]")
    blind, trusting = make_rig(), make_rig(trust_pids=True)
    for rig in (blind, trusting):
        rig.holders = [Holder(gpu(0), 10)]
    assert blind.poll() == {}
    assert "hostPID" in blind.finder.report().problems[0]
    assert trusting.one().job_id == "7"


def alive() -> int:
    gc.collect()
    return sum(isinstance(thing, JobOwner | Claim | ProcessSnapshot) for thing in gc.get_objects())


def test_ids_by_the_thousand_leave_nothing_behind(rig: Rig, tree: Tree) -> None:
    before = alive()
    pids = range(100, 164)
    for pid in pids:
        tree.process(pid)
    for _ in range(16):
        later = range(pids.stop, pids.stop + len(pids))
        for old, new in zip(pids, later, strict=True):
            tree.turns_into(old, new, {"SLURM_JOB_ID": str(new)})
        pids = later
        rig.holders = [Holder(gpu(pid % 8), pid) for pid in pids]
        found = {owner.job_id for owners in rig.poll().values() for owner in owners}
        assert found == set(map(str, pids))
    rig.holders = []
    assert rig.poll() == {}
    assert rig.finder._poll._reader._known == {}
    assert alive() <= before


def finder_of(*pids: int) -> JobFinder:
    """Over the real /proc."""
    pods = KubernetesSettings(pod_resources="/nonexistent", pod_logs="/nonexistent")
    settings = JobSettings(trust_pids=True, kubernetes=pods)
    return JobFinder(settings, processes=lambda: [Holder(gpu(0), pid) for pid in pids])


def test_a_real_process_is_attributed_by_its_environment() -> None:
    with child(WAITS, {"SLURM_JOB_ID": "31", "SLURM_JOB_NAME": "real"}) as pid:
        (owner,) = finder_of(pid).owners(0.0)[gpu(0)]
    assert (owner.job_id, owner.pids) == ("31", (pid,))
    assert owner.attributes["slurm.job.name"] == "real"


def test_a_real_process_that_overwrote_its_environment_is_attributed_by_its_parent() -> None:
    with child(LAUNCHES, {"SLURM_JOB_ID": "32", "SLURM_JOB_NAME": "real"}) as launcher:
        children = Path(f"/proc/{launcher}/task/{launcher}/children").read_text().split()
        finder = finder_of(*map(int, children))
        (owner,) = finder.owners(0.0)[gpu(0)]
    assert owner.job_id == "32"
    assert owner.attributes["slurm.job.name"] == "real"
    assert finder.report().counts == {"environment_wiped": 1}


EXECS = """
import os, sys
sys.stdin.readline()
again = 'import sys; print("again", flush=True); sys.stdin.read()'
os.execve(sys.executable, [sys.executable, "-I", "-S", "-c", again], {"SLURM_JOB_ID": "42"})
"""


def test_a_real_process_that_execs_with_another_environment_is_read_again() -> None:
    command = [sys.executable, "-I", "-S", "-c", EXECS]
    with subprocess.Popen(
        command, env={"SLURM_JOB_ID": "41"}, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        finder = finder_of(process.pid)
        before = finder.owners(0.0)[gpu(0)][0]
        process.stdin.write(b"go\n")
        process.stdin.flush()
        assert process.stdout.readline() == b"again\n"
        after = finder.owners(30.0)[gpu(0)][0]
        process.kill()
    assert (before.job_id, after.job_id) == ("41", "42")
