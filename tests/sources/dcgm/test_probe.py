"""What `doctor` is told, on virtual time."""

from __future__ import annotations

from otel_ofu.sources.dcgm.settings import DcgmSettings
from otel_ofu.sources.dcgm.source import probe
from otel_ofu.sources.dcgm.wire import DcgmProbe
from tests.sources.dcgm.conftest import MakeRig
from tests.sources.dcgm.rig import FAKE, a10, h100


def look(rig: MakeRig, **state: object) -> DcgmProbe:
    one = rig(state)
    return probe(DcgmSettings(bindings_path=str(FAKE)), 1.0, launch=one._launch)


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
    assert "systemctl enable --now nvidia-dcgm" in found.problems[0].remedy


def test_a_missing_driver_comes_with_the_command_that_installs_it(rig: MakeRig) -> None:
    found = look(rig, driver=None)
    assert "found no NVIDIA driver" in found.problems[0].message
    assert "cuda-drivers" in found.problems[0].remedy


def test_an_engine_without_gpus_is_a_problem(rig: MakeRig) -> None:
    assert "sees no GPU" in look(rig, gpus=[]).problems[0].message


def test_a_client_newer_than_the_engine_is_a_problem_with_both_versions(rig: MakeRig) -> None:
    found = look(rig, gpus=[h100(0)], engine_version="4.5.0", library_version="4.6.0")
    assert found.problems[0].message.startswith("the client (4.6.0) is newer")
    assert "4.5.0" in found.problems[0].message
    assert found.reachable


def test_an_engine_that_hides_its_version_is_reachable_all_the_same(rig: MakeRig) -> None:
    found = look(rig, gpus=[h100(0)], refuse={"engine version": -20})
    assert (found.reachable, found.engine_version) == (True, "")
    assert "unknown version" in found.problems[0].message
