"""What `doctor` is told, on virtual time."""

from __future__ import annotations

import socket
from pathlib import Path

from otel_ofu.sources.dcgm.endpoint import EngineEndpoint, refusal
from otel_ofu.sources.dcgm.settings import DcgmSettings
from otel_ofu.sources.dcgm.source import probe
from otel_ofu.sources.dcgm.wire import DcgmProbe, Request
from tests.sources.dcgm.conftest import MakeRig
from tests.sources.dcgm.rig import FAKE, a10, h100


def look(rig: MakeRig, **state: object) -> DcgmProbe:
    one = rig(state)
    return probe(
        DcgmSettings(bindings_path=str(FAKE)), 1.0, launch=one._launch, refused=one.refusal
    )


def test_a_healthy_node_has_no_problems(rig: MakeRig) -> None:
    found = look(rig, gpus=[h100(0), h100(1)])
    assert found.problems == ()
    assert found.reachable
    assert all(p.ok and p.backend == "gpm" for p in found.profiling)


def test_a_multiplexed_gpu_tells_what_it_cannot_count_at_once(rig: MakeRig) -> None:
    state = look(rig, gpus=[a10(0)]).profiling[0]
    assert (state.ok, state.backend) == (True, "multiplexed")
    assert "1008" in state.reason


def test_an_absent_engine_comes_with_the_command_that_starts_it(rig: MakeRig) -> None:
    found = look(rig, up=False)
    assert not found.reachable
    assert found.complete
    assert "systemctl enable --now nvidia-dcgm" in found.problems[0].remedy


def test_a_missing_driver_comes_with_the_command_that_installs_it(rig: MakeRig) -> None:
    found = look(rig, driver=None)
    assert "found no NVIDIA driver" in found.problems[0].message
    assert "cuda-drivers" in found.problems[0].remedy


def test_an_engine_without_gpus_is_a_problem(rig: MakeRig) -> None:
    found = look(rig, gpus=[])
    assert (found.gpus, found.profiling) == (0, ())
    assert "sees no GPU" in found.problems[0].message


def test_the_gpus_of_an_engine_are_counted_with_or_without_counters(rig: MakeRig) -> None:
    found = look(rig, gpus=[h100(0), a10(1, profiling=-36)])
    assert found.gpus == 2
    assert [p.ok for p in found.profiling] == [False, True]


class Slow:
    """A child that answers at given times; it needs half a minute of them to come up."""

    def __init__(self, *replies: DcgmProbe | None) -> None:
        self.replies = list(replies)
        self.waited: list[float] = []

    def send(self, request: Request) -> None: ...

    def receive(self, timeout_s: float) -> DcgmProbe | None:
        self.waited.append(timeout_s)
        return self.replies.pop(0) if self.replies else None

    def stop(self, grace_s: float) -> None: ...


def slow(child: Slow) -> DcgmProbe:
    settings = DcgmSettings(bindings_path=str(FAKE))
    return probe(settings, 2.0, launch=lambda: child, refused=lambda _: "")


def test_the_budget_begins_when_the_child_is_up() -> None:
    loaded = DcgmProbe(address="here", bindings_path="/b")
    done = DcgmProbe(address="here", bindings_path="/b", reachable=True, complete=True)
    child = Slow(loaded, done)
    assert slow(child) == done
    assert child.waited[0] > 10 * 2.0 >= child.waited[1]


def test_an_engine_that_is_late_is_to_be_restarted_and_not_enabled() -> None:
    found = slow(Slow(DcgmProbe(address="here:1", bindings_path="/b")))
    problem = found.problems[-1]
    assert problem.message == "here:1 accepts connections but did not answer within 2 s"
    assert "restart" in problem.remedy
    assert "enable" not in problem.remedy


def test_a_child_that_does_not_come_up_is_no_fault_of_the_engine() -> None:
    found = slow(Slow(None))
    assert "client process was not ready" in found.problems[-1].message
    assert found.problems[-1].remedy == ""


def test_no_child_is_started_where_nobody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    settings = DcgmSettings(bindings_path=str(FAKE), address=f"127.0.0.1:{port}")
    found = probe(settings, 5.0, launch=never)
    assert found.problems[0].message.endswith(f"127.0.0.1:{port}: connection refused")
    assert found.complete


def test_no_child_is_started_without_a_client_of_dcgm(tmp_path: Path) -> None:
    found = probe(DcgmSettings(bindings_path=str(tmp_path)), 5.0, launch=never)
    assert "no Python bindings of DCGM" in found.problems[0].message


def never() -> Slow:
    raise AssertionError("a child was started")


def test_a_socket_that_is_not_there_is_told_in_the_words_of_the_system(tmp_path: Path) -> None:
    where = EngineEndpoint("unix", str(tmp_path / "dcgm.sock"))
    assert refusal(where) == "no such file or directory"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(where.address)
        server.listen()
        assert refusal(where) == ""


def test_a_client_newer_than_the_engine_is_a_problem_with_both_versions(rig: MakeRig) -> None:
    found = look(rig, gpus=[h100(0)], engine_version="4.5.0", library_version="4.6.0")
    assert found.problems[0].message.startswith("the client (4.6.0) is newer")
    assert "4.5.0" in found.problems[0].message
    assert found.reachable


def test_an_engine_that_hides_its_version_is_reachable_all_the_same(rig: MakeRig) -> None:
    found = look(rig, gpus=[h100(0)], refuse={"engine version": -20})
    assert (found.reachable, found.engine_version) == (True, "")
    assert "unknown version" in found.problems[0].message
