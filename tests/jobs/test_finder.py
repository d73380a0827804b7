from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from otel_ofu.files.settings import CheckContext, Duration, hook, mistakes
from otel_ofu.jobs import JobFinder, JobSettings
from otel_ofu.jobs.settings import KubernetesSettings
from otel_ofu.model import Device, Owner
from tests.jobs.tree import TICKS, UPTIME_S, Holder, MakeRig, Tree, gpu
from tests.waiting import HANGS_S


def test_the_driver_is_asked_once_an_interval(make_rig: MakeRig, tree: Tree) -> None:
    rig = make_rig(interval=Duration(30))
    tree.process(10, {"SLURM_JOB_ID": "1"})
    tree.process(11, {"SLURM_JOB_ID": "2"})
    rig.holders = [Holder(gpu(0), 10)]
    assert rig.finder.owners(0.0)[gpu(0)][0].job_id == "1"
    rig.holders = [Holder(gpu(0), 11)]
    assert rig.finder.owners(10.0)[gpu(0)][0].job_id == "1"
    assert rig.finder.owners(20.0)[gpu(0)][0].job_id == "1"
    assert rig.finder.owners(30.0)[gpu(0)][0].job_id == "2"
    assert rig.finder.report().polled_at_s == 30.0


def test_a_clock_that_was_set_back_does_not_stop_polling(make_rig: MakeRig, tree: Tree) -> None:
    rig = make_rig()
    rig.finder.owners(1e9)
    tree.process(10, {"SLURM_JOB_ID": "1"})
    rig.holders = [Holder(gpu(0), 10)]
    assert rig.finder.owners(10.0)[gpu(0)][0].job_id == "1"


def test_a_poll_that_hangs_costs_freshness_first_and_the_answer_later(tree: Tree) -> None:
    free, hangs = threading.Event(), threading.Event()
    calls: list[int] = []

    def processes() -> Sequence[Holder]:
        calls.append(1)
        if hangs.is_set():
            free.wait(HANGS_S)
        return [Holder(gpu(0), 10)]

    tree.process(10, {"SLURM_JOB_ID": "1"})
    finder = JobFinder(
        JobSettings(interval=Duration(10), kubernetes=no_pods(tree)),
        processes=processes,
        proc_root=tree.proc,
        cgroup_root=tree.cgroups,
        budget_s=0.05,
    )
    finder.owners(0.0)
    finder._worker.wait(HANGS_S)
    hangs.set()
    try:
        assert finder.owners(10.0)[gpu(0)][0].job_id == "1"
        assert finder.owners(40.0)
        assert finder.owners(41.0) == {}
        assert len(calls) == 2
    finally:
        free.set()
        finder._worker.wait(HANGS_S)


def test_a_poll_that_hangs_is_begun_anew_without_what_does_not_answer(
    tree: Tree, caplog: pytest.LogCaptureFixture
) -> None:
    free, hangs = threading.Event(), threading.Event()
    calls: list[int] = []

    def processes() -> Sequence[Holder]:
        calls.append(1)
        if hangs.is_set():
            free.wait(HANGS_S)
        return [Holder(gpu(0), 10)]

    tree.process(10, {"SLURM_JOB_ID": "1"})
    finder = JobFinder(
        JobSettings(interval=Duration(10), kubernetes=no_pods(tree)),
        budget_s=0.05,
        processes=processes,
        source_owners=lambda: {gpu(1): [Owner({"ofu.job.id": "9"})]},
        proc_root=tree.proc,
        cgroup_root=tree.cgroups,
    )
    finder.owners(0.0)
    finder._worker.wait(HANGS_S)
    hangs.set()
    for now_s in (10.0, 50.1, 60.1, 70.1):
        finder.owners(now_s)
        if now_s > 10:
            finder._worker.wait(HANGS_S)
    assert {o.job_id for owners in finder.owners(70.2).values() for o in owners} == {"1", "9"}
    assert len(calls) == 2
    report = finder.report()
    assert (report.counts["poll_hangs"], report.counts["left_out"]) == (1, 3)
    assert "list of processes did not answer" in report.problems[0]
    assert len([m for m in caplog.messages if "did not answer" in m]) == 1
    left = finder._worker._left
    assert left is not None
    hangs.clear()
    free.set()
    left.join(HANGS_S)
    finder.owners(80.2)
    finder._worker.wait(HANGS_S)
    assert len(calls) == 3  # asked again once the old call has returned
    assert finder.report().problems == ()


@pytest.mark.parametrize("error", [RuntimeError("Driver Not Loaded"), OSError(5, "I/O"), KeyError])
def test_whoever_fails_is_a_problem_and_the_others_still_count(
    tree: Tree, error: Exception | type[Exception]
) -> None:
    def fails() -> Sequence[Holder]:
        raise error

    finder = JobFinder(
        JobSettings(kubernetes=no_pods(tree)),
        budget_s=HANGS_S,
        processes=fails,
        source_owners=lambda: {gpu(0): [Owner({"ofu.job.id": "9", "ofu.job.source": "scrape"})]},
        proc_root=tree.proc,
        cgroup_root=tree.cgroups,
    )
    (owner,) = finder.owners(0.0)[gpu(0)]
    assert (owner.job_id, owner.source) == ("9", "scrape")
    assert finder.report().problems[0].startswith("the driver's list of processes: ")


def test_a_driver_that_refuses_for_a_while_does_not_end_jobs_whose_processes_live(
    tree: Tree,
) -> None:
    answers = [[Holder(gpu(0), 10), Holder(gpu(1), 11)]]

    def processes() -> Sequence[Holder]:
        return answers.pop()  # then it raises

    tree.process(10, {"SLURM_JOB_ID": "1"})
    tree.process(11, {"SLURM_JOB_ID": "2"})
    finder = JobFinder(
        JobSettings(kubernetes=no_pods(tree)),
        processes=processes,
        proc_root=tree.proc,
        cgroup_root=tree.cgroups,
        budget_s=HANGS_S,
    )
    assert set(finder.owners(0.0)) == {gpu(0), gpu(1)}
    tree.process(11, {"SLURM_JOB_ID": "3"}, start_ticks=int((UPTIME_S + 20) * TICKS))
    (tree.proc / "uptime").write_text(f"{UPTIME_S + 30} 1.0")
    kept = [set(finder.owners(30.0 * n)) for n in (1, 2, 3)]
    assert kept == [{gpu(0)}] * 3
    assert finder.report().problems
    assert finder.owners(120.0) == {}


def test_an_input_that_is_nonsense_ends_a_poll_and_not_the_caller(tree: Tree) -> None:
    finder = JobFinder(
        JobSettings(),
        budget_s=HANGS_S,
        processes=lambda: [None],  # type: ignore[list-item]
        proc_root=tree.proc,
        cgroup_root=tree.cgroups,
    )
    assert finder.owners(0.0) == {}
    assert finder.report().counts == {"poll_failed": 1}


def test_the_report_says_how_many_processes_nobody_knows(make_rig: MakeRig, tree: Tree) -> None:
    tree.process(10, {"SLURM_JOB_ID": "1"})
    tree.process(11, {})
    rig = make_rig()
    rig.holders = [Holder(gpu(0), 10), Holder(gpu(1), 10), Holder(gpu(1), 11)]
    rig.poll()
    report = rig.finder.report()
    assert (report.devices, report.processes, report.unowned) == (2, 2, 1)


def test_a_process_that_is_listed_under_the_gpu_goes_to_its_instance(
    make_rig: MakeRig, tree: Tree
) -> None:
    tree.process(10, {"SLURM_JOB_ID": "1"})
    rig = make_rig()
    rig.devices = [Device("MIG-x", index=0, parent=gpu(0), mig_instance_id=9)]
    rig.holders = [Holder(gpu(0), 10, gpu_instance_id=9)]
    assert set(rig.poll()) == {"MIG-x"}


def test_what_a_source_says_is_an_owner(make_rig: MakeRig) -> None:
    rig = make_rig()
    rig.said = {
        gpu(0): [Owner({"k8s.pod.name": "p", "k8s.namespace.name": "n"})],
        gpu(1): [Owner({"ofu.job.id": "4242", "ofu.job.source": "demo"})],
        gpu(2): [Owner({"k8s.namespace.name": "n"})],
        gpu(3): [],
    }
    owners = rig.poll()
    assert set(owners) == {gpu(0), gpu(1)}
    assert (owners[gpu(0)][0].job_id, owners[gpu(0)][0].source) == ("n/p", "source")
    assert (owners[gpu(1)][0].job_id, owners[gpu(1)][0].source) == ("4242", "demo")


def test_the_owners_that_a_source_says_have_the_shares_that_it_says(make_rig: MakeRig) -> None:
    rig = make_rig()
    rig.said = {gpu(0): [Owner({"ofu.job.id": "8"}, 0.75), Owner({"ofu.job.id": "9"})]}
    assert [(o.job_id, o.share) for o in rig.poll()[gpu(0)]] == [("8", 0.75), ("9", 0.25)]


def test_folders_that_a_prolog_writes(make_rig: MakeRig, tmp_path: Path) -> None:
    exporter, jobstats = tmp_path / "hpc", tmp_path / "gpustat"
    exporter.mkdir()
    jobstats.mkdir()
    (exporter / "0").write_text("100\n101\n")
    (exporter / "1.9").write_text("102\n")
    (exporter / "2").write_text("0\n\n")
    (exporter / "readme").write_text("5\n")
    (jobstats / gpu(3)).write_text("103 1000\n")
    rig = make_rig(mapping_dirs=(exporter, jobstats, tmp_path / "absent", exporter / "0"))
    rig.devices = [
        *(Device(gpu(n), index=n) for n in range(4)),
        Device("MIG-x", index=1, parent=gpu(1), mig_instance_id=9),
    ]
    found = {uuid: [owner.job_id for owner in owners] for uuid, owners in rig.poll().items()}
    assert found == {gpu(0): ["100", "101"], "MIG-x": ["102"], gpu(3): ["103"]}
    assert list(rig.finder.report().counts) == ["mapping_dir_failed"]


@pytest.mark.parametrize(
    ("block", "why"),
    [
        ({"providers": ["slurm", "slurm"]}, "listed twice"),
        ({"interval": "500ms"}, "must be from 1s"),
        ({"environment": {"A=B": "team"}}, "'A=B' is not the name"),
        ({"kubernetes": {"kubelet_url": "localhost:10250"}}, "allowed: http"),
        ({"kubernetes": {"pod_labels": {"a": "b"}}}, "needs kubelet_url"),
    ],
)
def test_settings_that_cannot_be_are_mistakes(block: dict[str, object], why: str) -> None:
    settings = msgspec.convert(block, JobSettings, dec_hook=hook)
    ((_, message),) = mistakes(settings, CheckContext(0.0))
    assert why in message


def no_pods(tree: Tree) -> KubernetesSettings:
    nowhere = str(tree.proc / "no")
    return KubernetesSettings(pod_resources=nowhere, pod_logs=nowhere)
