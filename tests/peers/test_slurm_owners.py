"""Whose the GPUs of a real Slurm's jobs are, held against the devices that their tasks may open.

Debian's Slurm takes cgroup v1 alone here; the layout of v2 is covered by file trees in tests/jobs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from otel_ofu.jobs import JobFinder, JobOwner, JobSettings
from otel_ofu.jobs.settings import KubernetesSettings
from otel_ofu.model import Device
from tests.peers.conftest import fetched
from tests.peers.slurm import GPUS, Slurm, Task, unusable
from tests.waiting import HANGS_S

pytestmark = pytest.mark.peer


def running(folder: Path, *, confined: bool) -> Iterator[Slurm]:
    fetched()
    if reason := unusable(confined=confined):
        pytest.skip(reason)
    cluster = Slurm(folder, confined=confined)
    try:
        yield cluster.start()
    finally:
        cluster.stop()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slurm]:
    """With ConstrainDevices: a process sees its GPUs numbered from 0."""
    yield from running(tmp_path_factory.mktemp("slurm"), confined=True)


@pytest.fixture
def slurm(cluster: Slurm) -> Iterator[Slurm]:
    """A cluster without a job."""
    yield cluster
    cluster.end_jobs()


@dataclass(frozen=True)
class Holder:
    device_uuid: str
    pid: int
    gpu_instance_id: int | None = None


class Agent:
    """What finds the owners on one node; `holders` is the driver's list of processes."""

    def __init__(self, slurm: Slurm, node: str) -> None:
        self.holders: Sequence[Holder] = ()
        self._now_s = 0.0
        self._devices = [Device(f"GPU-{number}", index=number) for number in GPUS]
        nothing = str(slurm.workdir / "absent")
        self._finder = JobFinder(
            JobSettings(
                kubernetes=KubernetesSettings(pod_resources=nothing, pod_logs=nothing),
                trust_pids=True,  # its tasks are our children, in whatever namespace this is
            ),
            processes=lambda: self.holders,
            devices=lambda: self._devices,
            cgroup_root=slurm.cgroups(node),
            budget_s=HANGS_S,
        )

    def owners(self) -> Mapping[int, Sequence[JobOwner]]:
        """By number of the GPU, after a fresh poll."""
        self._now_s += 60.0
        found = self._finder.owners(self._now_s)
        return {int(uuid.removeprefix("GPU-")): owners for uuid, owners in found.items()}

    def jobs(self) -> dict[int, str]:
        """By number of the GPU, the only job that it has."""
        return {number: job.job_id for number, (job,) in self.owners().items()}

    def counts(self) -> Mapping[str, int]:
        return self._finder.report().counts


def of(job: str, *tasks: Task) -> dict[int, str]:
    """The truth: a task may open the GPUs of its job alone."""
    return {number: job for task in tasks for number in task.gpus}


def node_of(task: Task) -> str:
    return task.environment["SLURMD_NODENAME"]


def test_two_jobs_on_a_node_have_their_own_gpus_however_they_number_them(slurm: Slurm) -> None:
    here = f"--nodelist={slurm.nodes[0]}"
    first = slurm.submit("first", here, "--gpus=1")
    (one,) = slurm.tasks("first", 1)
    second = slurm.submit("second", here, "--gpus=2")
    (two,) = slurm.tasks("second", 1)
    agent = Agent(slurm, slurm.nodes[0])
    assert agent.jobs() == of(first, one) | of(second, two)
    assert two.environment["CUDA_VISIBLE_DEVICES"] == "0,1"
    assert two.gpus != {0, 1}
    held = min(two.gpus)
    agent.holders = [Holder(f"GPU-{held}", two.pid)]
    (owner,) = agent.owners()[held]
    assert (owner.job_id, owner.pids) == (second, (two.pid,))
    assert owner.attributes["slurm.cluster.name"] == "peer"
    assert agent.counts() == {}


def test_a_step_without_a_batch_script_has_what_it_was_given(slurm: Slurm) -> None:
    node = slurm.nodes[0]
    slurm.submit("held", f"--nodelist={node}", "--gpus=1")
    (held,) = slurm.tasks("held", 1)
    step = ("srun", "--overlap", "--gpus=1", slurm.probe, "step")
    job = slurm.submit("", f"--nodelist={node}", "--gpus=2", command=step)
    (task,) = slurm.tasks("step", 1)
    agent = Agent(slurm, node)
    jobs = agent.jobs()
    assert [number for number, id_ in jobs.items() if id_ == job] == sorted(set(jobs) - held.gpus)
    assert len(jobs) == 3
    assert of(job, task).items() <= jobs.items()


def test_each_task_of_an_array_is_a_job_with_the_array_s_id(slurm: Slurm) -> None:
    array = slurm.submit("array", f"--nodelist={slurm.nodes[0]}", "--gpus=1", "--array=0-1")
    tasks = slurm.tasks("array", 2)
    ids = [task.environment["SLURM_JOB_ID"] for task in tasks]
    agent = Agent(slurm, slurm.nodes[0])
    owners = agent.owners()
    assert {number: job.job_id for number, (job,) in owners.items()} == {
        number: id_ for id_, task in zip(ids, tasks, strict=True) for number in task.gpus
    }
    assert len(set(ids)) == 2
    attributes = [owner.attributes for (owner,) in owners.values()]
    assert {each["slurm.array.job.id"] for each in attributes} == {array}
    assert {each["slurm.array.task.id"] for each in attributes} == {"0", "1"}


def test_a_heterogeneous_job_is_one_job_on_both_of_its_nodes(slurm: Slurm) -> None:
    components = ("--gpus=1", ":", "--partition=second", "--gpus=2")
    step = ("srun", "--het-group=0,1", slurm.probe, "het")
    job = slurm.submit("", *components, command=step)
    tasks = slurm.tasks("het", 2)
    assert {node_of(task) for task in tasks} == set(slurm.nodes)
    for offset, task in enumerate(tasks):
        agent = Agent(slurm, node_of(task))
        owners = agent.owners()
        assert {number: owner.job_id for number, (owner,) in owners.items()} == of(job, task)
        agent.holders = [Holder(f"GPU-{min(task.gpus)}", task.pid)]
        (owner,) = agent.owners()[min(task.gpus)]
        assert (owner.job_id, owner.pids) == (job, (task.pid,))
        assert owner.attributes["slurm.job.id"] == str(int(job) + offset)
        assert owner.attributes["slurm.job.het.id"] == job
        assert owner.attributes["slurm.job.het.offset"] == str(offset)
        assert owner.attributes["slurm.partition"] == ("first", "second")[offset]
        assert agent.counts() == {}


def test_a_job_that_was_requeued_is_the_same_job_where_it_runs_now(slurm: Slurm) -> None:
    first, second = slurm.nodes
    job = slurm.submit("again", f"--nodelist={first}", "--gpus=2", "--requeue")
    (before,) = slurm.tasks("again", 1)
    agents = [Agent(slurm, node) for node in slurm.nodes]
    agents[0].holders = [Holder(f"GPU-{min(before.gpus)}", before.pid)]
    assert [agent.jobs() for agent in agents] == [of(job, before), {}]
    slurm.requeue(job, second)
    _, after = slurm.tasks("again", 2)
    assert node_of(after) == second
    assert [agent.jobs() for agent in agents] == [{}, of(job, after)]


def test_without_cgroups_a_process_alone_shows_whose_its_gpu_is(tmp_path: Path) -> None:
    for slurm in running(tmp_path, confined=False):
        job = slurm.submit("plain", f"--nodelist={slurm.nodes[0]}", "--gpus=2")
        (task,) = slurm.tasks("plain", 1)
        agent = Agent(slurm, slurm.nodes[0])
        assert agent.jobs() == {}
        agent.holders = [Holder("GPU-1", task.pid)]
        assert agent.jobs() == {1: job}
