from __future__ import annotations

import pytest

from otel_ofu.catalog.registry import load_registry
from otel_ofu.jobs import PROVIDERS
from otel_ofu.jobs.claims import variables
from otel_ofu.jobs.settings import JobSettings
from tests.jobs.tree import CONTAINER, Holder, MakeRig, Tree, gpu

RUN = {"TORCHELASTIC_RUN_ID": "exp-1", "MASTER_ADDR": "node1", "MASTER_PORT": "29500"}


@pytest.mark.parametrize(
    ("environment", "cgroup", "expected"),
    [
        ({"LSB_JOBID": "4", "LSB_JOBINDEX": "0"}, "0::/", ("lsf", "4")),
        ({"LSB_JOBID": "4", "LSB_JOBINDEX": "2"}, "0::/", ("lsf", "4[2]")),
        ({}, "0::/lsf/c1/job.9.123.4", ("lsf", "9")),
        ({"PBS_JOBID": "7[3].head"}, "0::/", ("pbs", "7[3].head")),
        ({}, "0::/pbs_jobs.service/jobid/8.head", ("pbs", "8.head")),
        ({"RAY_JOB_ID": "02000000"}, "0::/", ("ray", "02000000")),
        (RUN, "0::/", ("torchrun", "exp-1")),
        ({**RUN, "TORCHELASTIC_RUN_ID": "none"}, "0::/", ("torchrun", "node1:29500")),
        ({"PMIX_NAMESPACE": "prterun-n1-1@1", "PMI_JOBID": "x"}, "0::/", ("mpi", "prterun-n1-1@1")),
        ({"OMPI_MCA_ess_base_jobid": "3758096385"}, "0::/", ("mpi", "3758096385")),
        ({}, f"0::/docker/{CONTAINER}", ("container", CONTAINER)),
        ({**RUN, "RAY_JOB_ID": "1"}, "0::/", ("ray", "1")),
        ({**RUN, "SLURM_JOB_ID": "55"}, "0::/", ("slurm", "55")),
    ],
)
def test_who_names_a_job(
    make_rig: MakeRig,
    tree: Tree,
    environment: dict[str, str],
    cgroup: str,
    expected: tuple[str, str],
) -> None:
    tree.process(10, environment, cgroup)
    rig = make_rig()
    rig.holders = [Holder(gpu(0), 10)]
    owner = rig.one()
    assert (owner.source, owner.job_id) == expected


@pytest.mark.parametrize(
    "environment",
    [
        {"TORCHELASTIC_RUN_ID": "none"},
        {"TORCHELASTIC_RUN_ID": "none", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"},
        {"LSB_JOBINDEX": "3"},
        {"RANK": "0", "WORLD_SIZE": "8"},
    ],
)
def test_what_is_the_same_for_every_job_names_none(
    make_rig: MakeRig, tree: Tree, environment: dict[str, str]
) -> None:
    tree.process(10, environment)
    rig = make_rig()
    rig.holders = [Holder(gpu(0), 10)]
    assert not rig.poll()
    assert rig.finder.report().unowned == 1


def test_what_did_not_name_the_job_still_describes_it(make_rig: MakeRig, tree: Tree) -> None:
    tree.process(10, {**RUN, "SLURM_JOB_ID": "55"})
    rig = make_rig()
    rig.holders = [Holder(gpu(0), 10)]
    assert rig.one().attributes["torchelastic.run.id"] == "exp-1"


def test_the_order_is_the_users(make_rig: MakeRig, tree: Tree) -> None:
    tree.process(10, {**RUN, "SLURM_JOB_ID": "55"})
    rig = make_rig(providers=("torchrun", "slurm"))
    rig.holders = [Holder(gpu(0), 10)]
    assert rig.one().source == "torchrun"


def test_a_provider_that_is_left_out_is_not_asked(make_rig: MakeRig, tree: Tree) -> None:
    tree.process(10, {**RUN, "SLURM_JOB_ID": "55"})
    rig = make_rig(providers=("torchrun",))
    rig.holders = [Holder(gpu(0), 10)]
    assert "slurm.job.id" not in rig.one().attributes


def test_a_mapped_variable_names_or_describes_the_job(make_rig: MakeRig, tree: Tree) -> None:
    tree.process(10, {"TEAM": "vision", "RUN": "r1", "SLURM_JOB_ID": "55"})
    rig = make_rig(environment={"TEAM": "team", "RUN": "ofu.job.id"})
    rig.holders = [Holder(gpu(0), 10)]
    owner = rig.one()
    assert (owner.job_id, owner.source) == ("r1", "environment")
    assert owner.attributes["team"] == "vision"
    assert owner.attributes["slurm.job.id"] == "55"


def test_of_two_variables_for_one_attribute_the_first_that_is_set_counts(
    make_rig: MakeRig, tree: Tree
) -> None:
    tree.process(10, {"B": "b", "C": "c"})
    rig = make_rig(environment={"A": "ofu.job.id", "B": "ofu.job.id", "C": "ofu.job.id"})
    rig.holders = [Holder(gpu(0), 10)]
    assert rig.one().job_id == "b"


def test_no_personal_or_unlisted_variable_is_ever_asked_for() -> None:
    names = variables(JobSettings(environment={"TEAM": "team"}))
    assert "TEAM" in names
    assert not {"SLURM_JOB_USER", "SLURM_JOB_ACCOUNT", "USER", "HOME"} & names
    assert variables(JobSettings(providers=["k8s", "container"])) == frozenset()


def test_every_attribute_is_in_the_registry(make_rig: MakeRig, tree: Tree) -> None:
    names = variables(JobSettings(personal=True))
    tree.process(10, dict.fromkeys(names, "1"), f"0::/docker/{CONTAINER}")
    rig = make_rig(personal=True)
    rig.holders = [Holder(gpu(0), 10)]
    attributes = rig.one().attributes
    assert len(attributes) > len(PROVIDERS)
    assert set(attributes) <= set(load_registry().attributes)
