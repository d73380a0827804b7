"""The engine comes and goes: connections, restarts, versions, limits, and nothing left behind."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from otel_ofu.model import GapReason, Reading, Trouble
from otel_ofu.model.errors import SourceError, SourceUnavailable
from tests.sources.dcgm.conftest import MakeRig
from tests.sources.dcgm.rig import Rig, h100


def read(one: Rig) -> Sequence[Reading]:
    return one.source.read(one.clock.now_s())


def test_an_engine_that_restarts_is_read_again_at_the_next_tick(rig: MakeRig) -> None:
    one = rig({"gpus": [h100(0)]})
    one.ready()
    one.state["life"] = 2
    first = one.tick()[0]
    assert first.values["sm_clock"] == 1410e6
    assert first.gaps["tensor_active"].reason is GapReason.NOT_READY
    assert one.tick()[0].values["tensor_active"] == 0.4375


def test_while_the_engine_is_away_known_devices_have_gaps(rig: MakeRig) -> None:
    one = rig({"gpus": [h100(0), h100(1)]})
    one.ready()
    one.state["up"] = False
    away = one.tick()
    assert [r.device.uuid for r in away] == ["GPU-0", "GPU-1"]
    gap = away[0].gaps["tensor_active"]
    assert (gap.reason, away[0].values) == (GapReason.FAILED, {})
    assert "no DCGM host engine answers at 127.0.0.1:5555" in gap.detail
    one.state["up"] = True
    one.state["life"] = 2
    back = [one.tick()[0] for _ in range(6)]
    assert back[-1].values["tensor_active"] == 0.4375


def test_an_absent_engine_is_an_error_that_names_address_and_remedy(rig: MakeRig) -> None:
    one = rig({"up": False}, address="gpu-node:6000")
    seen: list[Trouble] = []
    for _ in range(3):
        with pytest.raises(SourceError, match="no DCGM host engine answers at gpu-node:6000"):
            one.tick()
        seen += one.source.troubles()
    assert len(set(seen)) == 1
    assert (seen[0].target, seen[0].reason) == ("gpu-node:6000", "not_reachable")
    assert "connection refused (sudo systemctl enable --now nvidia-dcgm" in seen[0].detail
    assert one.source.targets() == {"gpu-node:6000": False}


def test_an_engine_that_answers_has_no_troubles(rig: MakeRig) -> None:
    one = rig({"gpus": [h100(0)]})
    one.ready()
    assert list(one.source.troubles()) == []
    assert one.source.targets() == {"127.0.0.1:5555": True}


def test_a_closed_port_costs_no_time_in_the_client(rig: MakeRig) -> None:
    one = rig({"up": False})
    before_s = one.clock.monotonic_s()
    with pytest.raises(SourceError):
        read(one)
    assert one.clock.monotonic_s() == before_s


def test_connecting_is_tried_less_and_less_often(rig: MakeRig) -> None:
    one = rig({"up": False})
    one.interval_s = 1.0
    for _ in range(60):
        with pytest.raises(SourceError):
            one.tick()
    one.state["up"] = True
    waits = one.channel._client._wait_s if one.channel and one.channel._client else 0
    assert waits == 30.0


def test_a_port_that_speaks_something_else_is_called_no_engine(rig: MakeRig) -> None:
    one = rig({"speaks": "http", "listening": "127.0.0.1:8080"}, address="127.0.0.1:8080")
    with pytest.raises(SourceError, match=r":8080 accepts connections but is not a DCGM"):
        read(one)


def test_an_engine_that_accepts_and_hangs_is_to_be_restarted(rig: MakeRig) -> None:
    one = rig({"gpus": [h100(0)], "mute_s": 60.0})
    with pytest.raises(SourceError, match="accepts connections but gave no answer for 60 s"):
        read(one)
    detail = one.source.troubles()[0].detail
    assert "systemctl restart nvidia-dcgm" in detail
    assert "enable --now" not in detail


def test_a_unix_socket_is_an_address(rig: MakeRig) -> None:
    state = {"gpus": [h100(0)], "listening": "/run/dcgm.sock"}
    one = rig(state, address="unix:///run/dcgm.sock")
    assert one.ready()[0].values["tensor_active"] == 0.4375


def test_an_embedded_engine_needs_no_address(rig: MakeRig) -> None:
    one = rig({"gpus": [h100(0)], "up": True, "listening": ""}, embedded=True)
    assert one.ready()[0].values["tensor_active"] == 0.4375


def test_a_missing_driver_is_named(rig: MakeRig) -> None:
    with pytest.raises(SourceError, match="found no NVIDIA driver"):
        read(rig({"driver": None}))


def test_a_client_newer_than_the_engine_is_told_and_not_tried_again_soon(rig: MakeRig) -> None:
    one = rig({"gpus": [h100(0)], "engine_version": "3.3.9", "bindings_major": 4})
    with pytest.raises(SourceError, match="too old for the other"):
        read(one)
    calls = len(one.engine.calls)
    for _ in range(20):
        with pytest.raises(SourceError):
            one.tick()
    assert len(one.engine.calls) == calls


def test_a_client_older_than_the_engine_works(rig: MakeRig) -> None:
    one = rig({"gpus": [h100(0)], "engine_version": "4.6.0", "bindings_major": 3})
    assert one.ready()[0].values["tensor_active"] == 0.4375
    one.engine.samples[1, 0, 230] = [(round(one.clock.now_s() * 1e6) + 1, 79, 0)]
    for _ in range(3):
        got = one.tick()[0].values
        assert (got["tensor_active"], got["sm_clock_mean"]) == (0.4375, 1410e6)
        assert got["xid:79"] == 1
    assert {t.reason for t in one.source.troubles()} == {"version_mismatch"}
    one.engine.calls.clear()
    one.tick()
    assert one.engine.calls == ["latest"]


def test_fields_that_the_engine_does_not_know_cost_no_others(rig: MakeRig) -> None:
    one = rig({"gpus": [h100(0)], "unknown_fields": [396, 1086, 206]})
    reading = one.ready()[0]
    for key in ("row_remap_pending", "mma_cycles_active", "enc_util"):
        assert "does not support the field" in reading.gaps[key].detail
    assert reading.values["dec_util"] == 0
    assert reading.values["sm_cycles_elapsed"] == 1e12


def test_names_of_field_groups_do_not_meet_those_of_other_clients(rig: MakeRig) -> None:
    one = rig({"gpus": [h100(0)], "names_of_others": ["dcgm_fieldgroupData", "otel-ofu-1"]})
    assert one.ready()[0].values["tensor_active"] == 0.4375


def test_an_engine_without_free_groups_is_named(rig: MakeRig) -> None:
    with pytest.raises(SourceError, match="no free group"):
        read(rig({"gpus": [h100(0)], "groups_of_others": 61}))


def test_few_groups_are_used_for_a_whole_node(rig: MakeRig) -> None:
    one = rig({"gpus": [h100(i) for i in range(16)]})
    one.ready()
    connection = next(iter(one.engine.connections.values()))
    assert len(connection.groups) == 1
    assert len(connection.field_groups) <= 4
    assert all(len(ids) <= 128 for _, ids in connection.field_groups.values())


def test_a_gpu_without_uuid_is_left_out_with_a_trouble(rig: MakeRig) -> None:
    one = rig({"gpus": [h100(0), h100(1, uuid="")]})
    assert [r.device.uuid for r in one.ready()] == ["GPU-0"]
    assert [t.reason for t in one.source.troubles()] == ["no_uuid"]


def test_an_engine_that_sees_no_gpu_gives_no_readings(rig: MakeRig) -> None:
    assert rig({"gpus": []}).ready() == []


def test_a_refused_group_of_plain_fields_is_gaps_and_tried_again(rig: MakeRig) -> None:
    one = rig({"gpus": [h100(0)]})
    read(one)
    one.state["life"] = 2
    one.state["refuse"] = {"metric groups": -3}
    assert one.tick()[0].values["sm_clock"] == 1410e6


CALLS = [
    "all devices",
    "hierarchy",
    "group",
    "add entity",
    "field group",
    "watch",
    "latest",
    "architecture",
    "delete field group",
    "delete group",
]


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("code", [-3, -11, -21])
def test_nothing_is_left_in_the_engine_whichever_call_fails(
    rig: MakeRig, call: str, code: int
) -> None:
    one = rig({"gpus": [h100(0)], "refuse": {call: code}})
    try:
        read(one)
    except SourceError:
        pass
    else:
        one.source.close()
    one.state["refuse"] = {}
    # Groups whose deletion is refused fall to the engine when the connection ends.
    left = [x for x in one.engine.leaks() if not call.startswith("delete") or "open" in x]
    assert left == []
    one.engine.left_behind.clear()


@pytest.mark.parametrize("code", [-11, -21])
def test_a_failure_in_the_middle_of_life_rebuilds_all(rig: MakeRig, code: int) -> None:
    one = rig({"gpus": [h100(0)]})
    one.ready()
    one.state["refuse"] = {"latest": code}
    assert one.tick()[0].gaps["power"].reason is GapReason.FAILED
    one.state["refuse"] = {}
    back = [one.tick()[0] for _ in range(3)]
    assert back[-1].values["tensor_active"] == 0.4375
    assert one.engine.left_behind == []


def test_a_frozen_engine_times_out_and_is_read_after_it_thaws(rig: MakeRig) -> None:
    one = rig({"gpus": [h100(0)]})
    one.ready()
    one.state["frozen"] = True
    gap = one.tick()[0].gaps["tensor_active"]
    assert "did not answer in time" in gap.detail
    one.state["frozen"] = False
    back = [one.tick()[0] for _ in range(5)]
    assert back[-1].values["tensor_active"] == 0.4375


def test_a_missing_library_is_unavailable_with_the_command(rig: MakeRig) -> None:
    one = rig({"library_missing": True})
    with pytest.raises(SourceUnavailable, match=r"could not load libdcgm\.so\.4") as caught:
        read(one)
    assert "apt-get install datacenter-gpu-manager-4-core" in caught.value.remedy
    assert "dnf install datacenter-gpu-manager-4-core" in caught.value.remedy


def test_closing_twice_is_harmless(rig: MakeRig) -> None:
    one = rig({"gpus": [h100(0)]})
    one.ready()
    one.source.close()
    one.source.close()
    assert one.engine.leaks() == []
