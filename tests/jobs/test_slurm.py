from __future__ import annotations

from pathlib import Path

import pytest

from otel_ofu.model import Device
from tests.jobs.tree import Holder, MakeRig, Tree, gpu

V2 = "0::/system.slice/slurmstepd.scope/job_{}/step_{}/user/task_0"
V1 = "9:memory:/slurm/uid_1000/job_{0}/step_{1}/task_0\n0::/system.slice/slurmd.service"
SLUID = "s8FXKTA79XAR00"
SLUID_V2 = f"0::/system.slice/slurmstepd.scope/{SLUID}/step_0/user/task_0"
JOB = {
    "SLURM_JOB_ID": "77",
    "SLURM_JOB_NAME": "pretrain",
    "SLURM_JOB_PARTITION": "h100",
    "SLURM_CLUSTER_NAME": "alps",
    "SLURM_JOB_USER": "ada",
    "SLURM_JOB_ACCOUNT": "physics",
}


@pytest.mark.parametrize("layout", [V1, V2])
def test_a_job_is_known_by_cgroup_and_described_by_environment(
    make_rig: MakeRig, tree: Tree, layout: str
) -> None:
    tree.process(10, JOB, layout.format(77, 0))
    rig = make_rig()
    rig.holders = [Holder(gpu(0), 10)]
    owner = rig.one()
    assert (owner.job_id, owner.source, owner.pids, owner.share) == ("77", "slurm", (10,), 1.0)
    assert owner.attributes == {
        "ofu.job.id": "77",
        "ofu.job.source": "slurm",
        "slurm.job.id": "77",
        "slurm.job.name": "pretrain",
        "slurm.partition": "h100",
        "slurm.cluster.name": "alps",
    }


def test_the_environment_is_enough_where_slurm_uses_no_cgroups(
    make_rig: MakeRig, tree: Tree
) -> None:
    tree.process(10, {"SLURM_JOB_ID": "5"})
    rig = make_rig()
    rig.holders = [Holder(gpu(0), 10)]
    assert rig.one().job_id == "5"


def test_users_and_accounts_are_told_only_when_asked_for(make_rig: MakeRig, tree: Tree) -> None:
    tree.process(10, JOB)
    rig = make_rig(personal=True)
    rig.holders = [Holder(gpu(0), 10)]
    attributes = rig.one().attributes
    assert (attributes["slurm.user"], attributes["slurm.account"]) == ("ada", "physics")


def test_an_array_task_has_its_own_job_id(make_rig: MakeRig, tree: Tree) -> None:
    array = {"SLURM_JOB_ID": "78", "SLURM_ARRAY_JOB_ID": "70", "SLURM_ARRAY_TASK_ID": "8"}
    tree.process(10, array, V2.format(78, "batch"))
    rig = make_rig()
    rig.holders = [Holder(gpu(0), 10)]
    owner = rig.one()
    assert owner.job_id == "78"
    assert owner.attributes["slurm.array.job.id"] == "70"
    assert owner.attributes["slurm.array.task.id"] == "8"


def test_an_environment_that_came_along_from_another_job_is_not_believed(
    make_rig: MakeRig, tree: Tree
) -> None:
    tree.process(10, JOB, V2.format(90, 0))
    rig = make_rig()
    rig.holders = [Holder(gpu(0), 10)]
    owner = rig.one()
    assert owner.job_id == "90"
    assert "slurm.job.name" not in owner.attributes
    assert rig.finder.report().counts == {"environment_of_another_job": 1}


def test_a_sluid_stands_beside_the_job_id(make_rig: MakeRig, tree: Tree) -> None:
    tree.process(10, JOB, SLUID_V2)
    rig = make_rig()
    rig.holders = [Holder(gpu(0), 10)]
    owner = rig.one()
    assert owner.job_id == "77"
    assert owner.attributes["slurm.job.sluid"] == SLUID
    assert owner.attributes["slurm.job.name"] == "pretrain"


def test_a_sluid_alone_names_the_job_until_somebody_says_its_number(
    make_rig: MakeRig, tree: Tree
) -> None:
    tree.process(10, b"\0\0\0", SLUID_V2)
    rig = make_rig()
    rig.holders = [Holder(gpu(0), 10)]
    owner = rig.one()
    assert owner.job_id == SLUID
    assert "slurm.job.id" not in owner.attributes
    folder = SLUID_V2.removeprefix("0::")
    tree.process(11, JOB, SLUID_V2)
    tree.members(folder, 10, 11)
    assert rig.one().job_id == "77"


def test_an_environment_of_another_sluid_says_nothing(make_rig: MakeRig, tree: Tree) -> None:
    tree.process(10, {**JOB, "SLURM_JOB_SLUID": "s00000000000AA"}, SLUID_V2)
    rig = make_rig()
    rig.holders = [Holder(gpu(0), 10)]
    assert rig.one().job_id == SLUID


def test_processes_of_all_steps_are_one_job(make_rig: MakeRig, tree: Tree) -> None:
    for pid, step in ((10, 0), (11, 1), (12, "batch")):
        tree.process(pid, JOB, V2.format(77, step))
    rig = make_rig()
    rig.holders = [Holder(gpu(0), pid) for pid in (12, 10, 11)]
    assert rig.one().pids == (10, 11, 12)


def test_gpus_that_a_job_was_given_are_its_own_before_a_process_holds_them(
    make_rig: MakeRig, tree: Tree
) -> None:
    batch = V2.format(77, "batch")
    tree.process(10, {**JOB, "SLURM_JOB_GPUS": "0,2"}, batch)
    tree.members(batch.removeprefix("0::"), 10)
    rig = make_rig()
    rig.devices = [Device(gpu(n), index=n) for n in range(4)]
    rig.holders = [Holder(gpu(0), 10)]
    owners = rig.poll()
    assert set(owners) == {gpu(0), gpu(2)}
    assert [owner.pids for owner in owners[gpu(0)]] == [(10,)]
    (idle,) = owners[gpu(2)]
    assert (idle.job_id, idle.pids, idle.share) == ("77", (), 1.0)
    assert idle.attributes["slurm.job.name"] == "pretrain"


def test_a_step_speaks_for_itself_and_not_for_the_first_node(make_rig: MakeRig, tree: Tree) -> None:
    step = V1.format(77, 0)
    tree.process(10, {**JOB, "SLURM_JOB_GPUS": "0,1", "SLURM_STEP_GPUS": "3"}, step)
    tree.members("memory/slurm/uid_1000/job_77/step_0/task_0", 10)
    rig = make_rig()
    rig.devices = [Device(gpu(n), index=n) for n in range(4)]
    assert set(rig.poll()) == {gpu(3)}


HET = {
    **JOB,
    "SLURM_HET_SIZE": "2",
    "SLURM_JOB_ID_HET_GROUP_0": "77",
    "SLURM_JOB_ID_HET_GROUP_1": "78",
    "SLURM_JOB_PARTITION_HET_GROUP_0": "h100",
    "SLURM_JOB_PARTITION_HET_GROUP_1": "a100",
}


def test_the_components_of_a_heterogeneous_job_are_one_job(make_rig: MakeRig, tree: Tree) -> None:
    """Each has cgroups under its own id; the environment is that of the first."""
    tree.process(10, HET, V1.format(77, 0))
    tree.process(11, HET, V1.format(78, 0))
    rig = make_rig()
    rig.holders = [Holder(gpu(0), 10), Holder(gpu(1), 11)]
    owners = rig.poll()
    ((first,), (second,)) = owners[gpu(0)], owners[gpu(1)]
    assert (first.job_id, second.job_id) == ("77", "77")
    assert second.attributes == {
        "ofu.job.id": "77",
        "ofu.job.source": "slurm",
        "slurm.job.id": "78",
        "slurm.job.het.id": "77",
        "slurm.job.het.offset": "1",
        "slurm.job.name": "pretrain",
        "slurm.partition": "a100",
        "slurm.cluster.name": "alps",
    }
    assert first.attributes["slurm.job.het.offset"] == "0"
    assert rig.finder.report().counts == {}


def test_without_cgroups_the_component_is_not_known(make_rig: MakeRig, tree: Tree) -> None:
    tree.process(11, HET)
    rig = make_rig()
    rig.holders = [Holder(gpu(1), 11)]
    owner = rig.one(gpu(1))
    assert (owner.job_id, owner.attributes["slurm.job.het.id"]) == ("77", "77")
    assert "slurm.job.het.offset" not in owner.attributes


def test_a_job_that_a_heterogeneous_one_submitted_is_its_own(make_rig: MakeRig, tree: Tree) -> None:
    tree.process(10, {**HET, "SLURM_JOB_ID": "90"}, V1.format(90, 0))
    tree.process(11, {**HET, "SLURM_JOB_ID": "90"}, V1.format(78, 0))
    rig = make_rig()
    rig.holders = [Holder(gpu(0), 10), Holder(gpu(1), 11)]
    owners = rig.poll()
    assert [owners[gpu(n)][0].job_id for n in range(2)] == ["90", "78"]
    for n in range(2):
        assert not any("het" in name for name in owners[gpu(n)][0].attributes)


def test_a_prolog_knows_a_component_by_its_own_id(
    make_rig: MakeRig, tree: Tree, tmp_path: Path
) -> None:
    (tmp_path / "mapped").mkdir()
    (tmp_path / "mapped" / gpu(1)).write_text("78\n")
    tree.process(11, HET, V1.format(78, 0))
    rig = make_rig(mapping_dirs=[str(tmp_path / "mapped")])
    rig.holders = [Holder(gpu(1), 11)]
    assert rig.one(gpu(1)).job_id == "77"
