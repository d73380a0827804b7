"""MIG: one device for each compute instance, with its own activity and its parent's clock."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from otel_ofu.model import GapReason, Reading
from tests.sources.dcgm.conftest import MakeRig
from tests.sources.dcgm.rig import h100


def instance(slot: int, slices: int, *uuids: str, **more: object) -> dict[str, Any]:
    """A GPU instance whose NVML id is not its place, as on real GPUs."""
    return {
        "slot": slot,
        "gi": 7 + slot,
        "slices": slices,
        "profile": f"{slices}g.{10 * slices}gb",
        "uuid": uuids[0] if len(uuids) == 1 else "",
        "cis": [{"slices": slices // len(uuids), "uuid": u} for u in uuids],
        **more,
    }


def by_uuid(readings: Iterable[Reading]) -> dict[str, Reading]:
    return {r.device.uuid: r for r in readings}


def node() -> dict[str, Any]:
    return {
        "gpus": [
            h100(
                0,
                mig=[
                    instance(0, 1, "MIG-a", values={"1004": 0.25, "252": 1000}),
                    instance(1, 3, "MIG-b", values={"1004": 0.75}),
                ],
            ),
            h100(1, values={"100": 1700}),
        ]
    }


def test_an_instance_has_its_own_activity_and_memory_and_the_clock_of_its_gpu(
    rig: MakeRig,
) -> None:
    found = by_uuid(rig(node()).ready())
    assert set(found) == {"GPU-0", "MIG-a", "MIG-b", "GPU-1"}
    a = found["MIG-a"]
    assert a.values["tensor_active"] == 0.25
    assert a.values["mem_used"] == 1000 * 2**20
    assert a.values["sm_clock"] == found["GPU-0"].values["sm_clock"] == 1410e6
    assert a.values["max_sm_clock"] == 1980e6
    assert found["MIG-b"].values["tensor_active"] == 0.75


def test_an_instance_is_described_by_parent_share_profile_and_driver_id(rig: MakeRig) -> None:
    found = by_uuid(rig(node()).ready())
    device = found["MIG-b"].device
    assert device.parent == "GPU-0"
    assert device.sm_share == pytest.approx(3 / 7)
    assert device.mig_profile == "3g.30gb"
    assert device.mig_instance_id == 8
    assert device.index == 0
    assert found["GPU-0"].device.sm_share == 1


def test_what_only_the_gpu_counts_is_a_gap_of_the_instance(rig: MakeRig) -> None:
    found = by_uuid(rig(node()).ready())
    for key in ("power", "pcie_tx", "mma_cycles_active", "throttled:gpu_idle", "gpu_util"):
        assert found["MIG-a"].gaps[key].reason is GapReason.NOT_SUPPORTED
    assert "power" in found["GPU-0"].values


def test_compute_instances_that_share_an_instance_are_devices_of_their_own(rig: MakeRig) -> None:
    state = {"gpus": [h100(0, mig=[instance(0, 2, "MIG-x", "MIG-y")])]}
    found = by_uuid(rig(state).ready())
    assert set(found) == {"GPU-0", "MIG-x", "MIG-y"}
    assert found["MIG-x"].values["tensor_active"] == 0.4375
    assert found["MIG-x"].device.sm_share == pytest.approx(1 / 7)
    assert "shared" in found["MIG-x"].gaps["mem_used"].detail


def test_an_instance_without_compute_instance_is_no_device(rig: MakeRig) -> None:
    bare = instance(0, 1, "MIG-a") | {"cis": [], "uuid": ""}
    found = by_uuid(rig({"gpus": [h100(0, mig=[bare])]}).ready())
    assert set(found) == {"GPU-0"}


def test_a_new_layout_is_seen_within_a_minute_and_leaves_nothing_behind(rig: MakeRig) -> None:
    one = rig(node())
    one.ready()
    one.state["gpus"][0]["mig"] = [instance(2, 7, "MIG-whole")]
    seen = [by_uuid(one.tick()) for _ in range(9)]
    assert set(seen[-1]) == {"GPU-0", "MIG-whole", "GPU-1"}
    assert seen[-1]["MIG-whole"].values["tensor_active"] == 0.4375
    assert one.engine.left_behind == []


def test_an_engine_that_cannot_do_mig_still_reads_its_gpus(rig: MakeRig) -> None:
    readings = rig({"gpus": [h100(0)], "refuse": {"hierarchy": -6}}).ready()
    assert readings[0].values["tensor_active"] == 0.4375


def test_more_instances_than_one_group_holds_are_all_read(rig: MakeRig) -> None:
    gpus = [h100(g, mig=[instance(i, 1, f"MIG-{g}-{i}") for i in range(7)]) for g in range(10)]
    one = rig({"gpus": gpus})
    one.source.read(one.clock.now_s())
    found = by_uuid(one.tick())
    assert len(found) == 10 * 8
    assert all(r.values["tensor_active"] == 0.4375 for r in found.values())
