from __future__ import annotations

import logging
import ssl
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest

from otel_ofu.model import Device
from tests.jobs import kubelet
from tests.jobs.kubelet import PodResourcesServer, container, devices, pod, pods_page
from tests.jobs.tree import CONTAINER, POD_UID, Holder, MakeRig, Rig, Tree, gpu
from tests.peers.certs import Certificates

OTHER_UID = POD_UID[:-1] + "1"
MIG = "MIG-11111111-2222-3333-4444-555555555555"


def in_pod(uid: str = POD_UID, container_id: str = CONTAINER) -> str:
    return f"0::/kubepods/burstable/pod{uid}/{container_id}"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[PodResourcesServer]:
    running = PodResourcesServer(tmp_path / "kubelet.sock")
    yield running
    running.stop()


@pytest.fixture
def rig(server: PodResourcesServer, make_rig: MakeRig, tmp_path: Path) -> Rig:
    made = make_rig(pod_resources=str(tmp_path / "kubelet.sock"))
    made.devices = [Device(gpu(n), index=n) for n in range(4)]
    return made


def test_a_pod_owns_what_it_was_given_without_any_process(
    rig: Rig, server: PodResourcesServer
) -> None:
    server.answer = pod("ml", "train-0", container("main", devices("nvidia.com/gpu", gpu(0))))
    owner = rig.one()
    assert (owner.job_id, owner.source, owner.pids) == ("ml/train-0", "k8s", ())
    assert owner.attributes == {
        "ofu.job.id": "ml/train-0",
        "ofu.job.source": "k8s",
        "k8s.namespace.name": "ml",
        "k8s.pod.name": "train-0",
        "k8s.container.name": "main",
    }


def test_the_pods_process_adds_what_only_its_cgroup_says(
    rig: Rig, server: PodResourcesServer, tree: Tree
) -> None:
    server.answer = pod("ml", "train-0", container("main", devices("nvidia.com/gpu", gpu(0))))
    tree.process(10, {"TORCHELASTIC_RUN_ID": "r1"}, in_pod())
    rig.holders = [Holder(gpu(0), 10)]
    owner = rig.one()
    assert (owner.job_id, owner.pids, owner.share) == ("ml/train-0", (10,), 1.0)
    assert owner.attributes["k8s.pod.uid"] == POD_UID
    assert owner.attributes["container.id"] == CONTAINER
    assert owner.attributes["torchelastic.run.id"] == "r1"


def test_mig_instances_and_replicas_are_told_apart(rig: Rig, server: PodResourcesServer) -> None:
    rig.devices.append(Device(MIG, index=2, parent=gpu(2), mig_instance_id=9))
    server.answer = (
        pod("ml", "a", container("main", devices("nvidia.com/mig-1g.10gb", MIG)))
        + pod("ml", "b", container("main", devices("nvidia.com/gpu.shared", f"{gpu(0)}::0")))
        + pod("ml", "c", container("main", devices("nvidia.com/gpu.shared", f"{gpu(0)}::1")))
    )
    owners = rig.poll()
    assert [owner.job_id for owner in owners[MIG]] == ["ml/a"]
    assert [(owner.job_id, owner.share) for owner in owners[gpu(0)]] == [
        ("ml/b", 0.5),
        ("ml/c", 0.5),
    ]


def test_a_claim_of_dynamic_resource_allocation(rig: Rig, server: PodResourcesServer) -> None:
    dynamic = [
        kubelet.claimed("gpu.nvidia.com", "gpu-1", "k8s.gpu.nvidia.com/claim=77-gpu-1"),
        kubelet.claimed("dra.cpu", "gpu-2", "dra.cpu/cpu=gpu-2"),
    ]
    server.answer = pod("ml", "dra", container("main", dynamic=dynamic))
    owners = rig.poll()
    assert set(owners) == {gpu(1)}
    assert owners[gpu(1)][0].job_id == "ml/dra"


def test_resources_that_are_no_gpus_are_passed_over_and_unknown_gpus_are_told(
    rig: Rig, server: PodResourcesServer
) -> None:
    server.answer = pod(
        "ml", "a", container("main", devices("rdma/hca", "0"), devices("nvidia.com/gpu", gpu(9)))
    )
    assert rig.poll() == {}
    assert rig.finder.report().problems == (f"nvidia.com/gpu: no GPU here is called {gpu(9)}",)


def test_two_containers_of_a_pod_are_one_owner_of_what_they_share(
    rig: Rig, server: PodResourcesServer
) -> None:
    server.answer = pod(
        "ml",
        "a",
        container("one", devices("nvidia.com/gpu", f"{gpu(0)}::0")),
        container("two", devices("nvidia.com/gpu", f"{gpu(0)}::1")),
    )
    owner = rig.one()
    assert owner.share == 1.0
    assert "k8s.container.name" not in owner.attributes


def test_of_two_pods_on_a_gpu_the_process_goes_to_the_one_that_its_uid_names(
    rig: Rig, server: PodResourcesServer, tree: Tree, make_rig: MakeRig, tmp_path: Path
) -> None:
    logs = tmp_path / "pods"
    (logs / f"ml_b_{POD_UID}").mkdir(parents=True)
    (logs / "not-a-pod").mkdir()
    server.answer = b"".join(
        pod("ml", name, container("main", devices("nvidia.com/gpu", f"{gpu(0)}::{n}")))
        for n, name in enumerate("ab")
    )
    tree.process(10, {}, in_pod())
    rig = make_rig(pod_resources=rig.settings.kubernetes.pod_resources, pod_logs=str(logs))
    rig.holders = [Holder(gpu(0), 10)]
    found = {owner.job_id: owner.pids for owner in rig.poll()[gpu(0)]}
    assert found == {"ml/a": (), "ml/b": (10,)}


def test_a_process_of_one_of_two_pods_is_not_given_to_either_by_guess(
    rig: Rig, server: PodResourcesServer, tree: Tree
) -> None:
    server.answer = b"".join(
        pod("ml", name, container("main", devices("nvidia.com/gpu", f"{gpu(0)}::{n}")))
        for n, name in enumerate("ab")
    )
    tree.process(10, {}, in_pod())
    rig.holders = [Holder(gpu(0), 10)]
    found = {owner.job_id: owner.pids for owner in rig.poll()[gpu(0)]}
    assert found == {"ml/a": (), "ml/b": ()}
    assert rig.finder.report().unowned == 1


def test_without_the_socket_a_pod_is_known_by_its_uid(make_rig: MakeRig, tree: Tree) -> None:
    tree.process(10, {}, in_pod())
    rig = make_rig()
    rig.holders = [Holder(gpu(0), 10)]
    owner = rig.one()
    assert (owner.job_id, owner.source) == (POD_UID, "k8s")


def test_slurm_inside_a_pod_is_the_job_and_the_pod_its_place(
    rig: Rig, server: PodResourcesServer, tree: Tree
) -> None:
    server.answer = pod("slurm", "slurmd-0", container("d", devices("nvidia.com/gpu", gpu(0))))
    tree.process(10, {"SLURM_JOB_ID": "5"}, in_pod())
    tree.process(11, {"SLURM_JOB_ID": "6"}, in_pod())
    rig.holders = [Holder(gpu(0), 10), Holder(gpu(0), 11)]
    found = {owner.job_id: owner for owner in rig.poll()[gpu(0)]}
    assert set(found) == {"5", "6"}
    assert {owner.share for owner in found.values()} == {0.5}
    assert {owner.attributes["k8s.pod.name"] for owner in found.values()} == {"slurmd-0"}


def test_a_pod_that_ended_owns_nothing_at_the_next_poll(
    rig: Rig, server: PodResourcesServer
) -> None:
    server.answer = pod("ml", "a", container("main", devices("nvidia.com/gpu", gpu(0))))
    assert rig.one().job_id == "ml/a"
    server.answer = pod("ml", "b", container("main", devices("nvidia.com/gpu", gpu(0))))
    assert rig.one().job_id == "ml/b"
    server.answer = b""
    assert rig.poll() == {}


def test_a_kubelet_that_restarts_does_not_end_the_jobs_of_the_node(
    rig: Rig, server: PodResourcesServer
) -> None:
    server.answer = pod("ml", "a", container("main", devices("nvidia.com/gpu", gpu(0))))
    rig.poll()
    server.stop()
    Path(rig.settings.kubernetes.pod_resources).unlink(missing_ok=True)
    assert [set(rig.poll()) for _ in range(4)] == [{gpu(0)}, {gpu(0)}, {gpu(0)}, set()]


def _refuses(context: grpc.ServicerContext) -> bytes:
    context.abort(grpc.StatusCode.PERMISSION_DENIED, "not for you")
    raise AssertionError


@pytest.mark.parametrize(
    "answer", [(_refuses, "PERMISSION_DENIED: not for you"), (b"\xff\xff", "not an answer")]
)
def test_a_kubelet_that_does_not_answer_is_told_once_and_the_rest_goes_on(
    rig: Rig,
    server: PodResourcesServer,
    tree: Tree,
    caplog: pytest.LogCaptureFixture,
    answer: tuple[kubelet.Answer, str],
) -> None:
    server.answer, words = answer
    tree.process(10, {"SLURM_JOB_ID": "5"})
    rig.holders = [Holder(gpu(0), 10)]
    with caplog.at_level(logging.WARNING):
        assert rig.one().job_id == "5"
        assert rig.one().job_id == "5"
    assert words in rig.finder.report().problems[0]
    assert len(caplog.records) == 1
    server.answer = pod("ml", "a", container("main", devices("nvidia.com/gpu", gpu(1))))
    assert set(rig.poll()) == {gpu(0), gpu(1)}
    assert rig.finder.report().problems == ()


def test_labels_name_the_job_that_pods_are_part_of(
    make_rig: MakeRig, server: PodResourcesServer, tmp_path: Path
) -> None:
    server.answer = b"".join(
        pod("ml", f"w-{n}", container("main", devices("nvidia.com/gpu", gpu(n)))) for n in range(2)
    )
    items = [
        {
            "metadata": {
                "namespace": "ml",
                "name": f"w-{n}",
                "uid": uid,
                "labels": {"batch.kubernetes.io/job-name": "train", "team": "nlp", "x": "y"},
            }
        }
        for n, uid in enumerate((POD_UID, OTHER_UID))
    ]
    labels = {"batch.kubernetes.io/job-name": "ofu.job.id", "team": "team"}
    with pods_page(items) as url:
        rig = make_rig(
            pod_resources=str(tmp_path / "kubelet.sock"), kubelet_url=url, pod_labels=labels
        )
        owners = rig.poll()
    assert [owners[gpu(n)][0].job_id for n in range(2)] == ["train", "train"]
    attributes = owners[gpu(1)][0].attributes
    assert (attributes["team"], attributes["k8s.pod.uid"]) == ("nlp", OTHER_UID)
    assert "x" not in attributes


def test_the_token_is_not_sent_in_the_clear(make_rig: MakeRig, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("secret")
    seen: list[str | None] = []
    with pods_page([], seen) as url:
        rig = make_rig(kubelet_url=url, kubelet_token_file=str(token))
        rig.poll()
    assert seen == [None]


def test_the_token_is_sent_to_a_kubelet_that_is_trusted(
    make_rig: MakeRig, certificates: Certificates, tmp_path: Path
) -> None:
    token = tmp_path / "token"
    token.write_text("secret\n")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates.server.cert, certificates.server.key)
    seen: list[str | None] = []
    with pods_page([], seen, context) as url:
        rig = make_rig(
            kubelet_url=url, kubelet_token_file=str(token), kubelet_ca_file=str(certificates.ca)
        )
        rig.poll()
        token.write_text("secret\ntoo")
        rig.poll()
    assert seen == ["Bearer secret"]
    assert rig.finder.report().problems == (f"{url}: {token}: expected one line",)


def test_an_authority_that_is_none_is_named(make_rig: MakeRig, tmp_path: Path) -> None:
    rig = make_rig(kubelet_url="https://127.0.0.1:1", kubelet_ca_file=str(tmp_path / "absent.pem"))
    rig.poll()
    (problem,) = rig.finder.report().problems
    assert f"kubelet_ca_file {tmp_path}/absent.pem: No such file" in problem


@pytest.mark.parametrize("body", [b"", b"[]", b'{"items": [1]}', b"{}", b"<html>", b'{"items": 5}'])
def test_an_answer_that_is_no_list_of_pods_is_told(make_rig: MakeRig, body: bytes) -> None:
    with pods_page(body) as url:
        rig = make_rig(kubelet_url=url)
        assert rig.poll() == {}
    assert list(rig.finder.report().counts) == ["kubelet_failed"]


def test_a_kubelet_that_is_not_there_is_told(make_rig: MakeRig) -> None:
    with pods_page([]) as url:
        pass
    rig = make_rig(kubelet_url=url)
    rig.poll()
    assert "Connection refused" in rig.finder.report().problems[0]
