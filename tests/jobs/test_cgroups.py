from __future__ import annotations

import pytest

from otel_ofu.files.procfs import CgroupLine
from otel_ofu.jobs.cgroups import Cgroup, cgroup_of
from tests.jobs.tree import CONTAINER, POD_UID

SLUID = "s8FXKTA79XAR00"
SNAKE = POD_UID.replace("-", "_")
OUTER = "cd" * 32


def place(*paths: str) -> Cgroup:
    return cgroup_of([CgroupLine("", path) for path in paths])


@pytest.mark.parametrize(
    ("path", "job", "sluid", "step"),
    [
        ("/system.slice/slurmstepd.scope/job_123/step_0/user/task_0", "123", "", "0"),
        ("/system.slice/node7_slurmstepd.scope/job_123/step_batch/user/task_0", "123", "", "batch"),
        ("/slurm/uid_1000/job_123/step_extern/task_0", "123", "", "extern"),
        ("/slurm_node7/uid_1000/job_9", "9", "", ""),
        (f"/system.slice/slurmstepd.scope/{SLUID}/step_batch", "", SLUID, "batch"),
        (f"/slurm/uid_0/{SLUID}/step_4294967292", "", SLUID, "4294967292"),
        (f"/../../system.slice/slurmstepd.scope/{SLUID}/step_1/user/task_3", "", SLUID, "1"),
        ("/system.slice/slurmstepd.scope/system", "", "", ""),
        ("/system.slice/slurmd.service", "", "", ""),
        ("/user.slice/job_123/step_0", "", "", ""),
    ],
)
def test_a_slurm_path_names_job_or_sluid_and_step(
    path: str, job: str, sluid: str, step: str
) -> None:
    found = place(path)
    assert (found.slurm_job, found.sluid, found.step) == (job, sluid, step)


@pytest.mark.parametrize(
    "path",
    [
        f"/kubepods/burstable/pod{POD_UID}/{CONTAINER}",
        f"/kubepods/besteffort/pod{POD_UID}/crio-{CONTAINER}",
        (
            f"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{SNAKE}.slice/"
            f"cri-containerd-{CONTAINER}.scope"
        ),
        f"/kubepods.slice/kubepods-pod{SNAKE}.slice/crio-{CONTAINER}.scope/container",
        f"/kubepods.slice/kubepods-pod{SNAKE}.slice/docker-{CONTAINER}.scope",
        (
            f"/system.slice/containerd.service/kubepods-besteffort-pod{SNAKE}.slice"
            f":cri-containerd:{CONTAINER}"
        ),
        (
            f"/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod{SNAKE}.slice/"
            f"cri-containerd-{CONTAINER}.scope"
        ),
        f"/../../kubepods-pod{SNAKE}.slice/cri-containerd-{CONTAINER}.scope",
        f"/docker/{OUTER}/kubelet/kubepods/pod{POD_UID}/{CONTAINER}",
    ],
)
def test_each_runtime_spells_pod_and_container_its_own_way(path: str) -> None:
    found = place(path)
    assert (found.pod_uid, found.container_id) == (POD_UID, CONTAINER)


def test_a_static_pod_has_a_hash_in_place_of_a_uid() -> None:
    hashed = "0123456789abcdef0123456789abcdef"
    assert place(f"/kubepods/burstable/pod{hashed}/{CONTAINER}").pod_uid == hashed


@pytest.mark.parametrize(
    "path",
    [
        f"/docker/{CONTAINER}",
        f"/system.slice/docker-{CONTAINER}.scope",
        f"/machine.slice/libpod-{CONTAINER}.scope/container",
        f"/user.slice/user-1000.slice/nerdctl-{CONTAINER}.scope",
    ],
)
def test_a_container_without_a_pod(path: str) -> None:
    assert (place(path).pod_uid, place(path).container_id) == ("", CONTAINER)


@pytest.mark.parametrize(
    "path", ["/", "", "/podium", "/system.slice/podman.service", f"/x/{'g' * 64}", "/pod1234"]
)
def test_other_paths_name_nothing(path: str) -> None:
    found = place(path)
    assert not found.known
    assert not found.folders


def test_schedulers_with_cgroup_hooks() -> None:
    assert place("/lsf/cluster1/job.4711.20261129.1").lsf_job == "4711"
    assert place("/pbs_jobs.service/jobid/77.pbs-server").pbs_job == "77.pbs-server"


def test_the_hierarchy_that_knows_the_job_is_found_among_those_that_do_not() -> None:
    lines = [
        CgroupLine("pids", "/"),
        CgroupLine("memory", "/slurm/uid_1/job_5/step_0/task_0"),
        CgroupLine("", "/system.slice/slurmd.service"),
    ]
    found = cgroup_of(lines)
    assert found.slurm_job == "5"
    assert "memory/slurm/uid_1/job_5/step_0/task_0" in found.folders


def test_steps_of_a_job_are_one_scope_and_jobs_are_not() -> None:
    base = "/system.slice/slurmstepd.scope"
    assert place(f"{base}/job_1/step_0").scope == place(f"{base}/job_1/step_1").scope
    assert place(f"{base}/job_1/step_0").scope != place(f"{base}/job_2/step_0").scope
