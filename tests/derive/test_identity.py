from __future__ import annotations

from dataclasses import replace

from otel_ofu.catalog.registry import load_registry
from otel_ofu.derive import Deriver, DeriverSettings
from otel_ofu.model import Device
from tests.derive.readings import BUSY, H100, MIG, derive, reading

TYPES = {"string": str, "int": int, "double": float, "boolean": bool}


def test_a_gpu_is_described_as_its_driver_does() -> None:
    assert derive(reading(BUSY)).entity.attributes == {
        "host.name": "node1",
        "hw.id": "GPU-aa",
        "hw.name": "nvidia3",
        "hw.model": "NVIDIA H100 80GB HBM3",
        "hw.vendor": "nvidia",
        "ofu.gpu.sku": "h100-sxm5",
        "ofu.gpu.index": 3,
        "ofu.gpu.architecture": "hopper",
        "ofu.gpu.pci.address": "00000000:1B:00.0",
    }


def test_a_mig_instance_names_its_parent_and_place() -> None:
    attributes = derive(reading(BUSY, replace(MIG, mig_instance_id=0, index=0))).entity.attributes
    assert attributes["hw.parent"] == "GPU-aa"
    assert attributes["ofu.mig.profile"] == "2g.20gb"
    assert attributes["ofu.mig.instance.id"] == 0
    assert attributes["ofu.gpu.index"] == 0
    assert attributes["ofu.gpu.sku"] == "h100-sxm5"


def test_a_mig_instance_without_a_name_is_of_its_parents_model() -> None:
    read = reading({"tensor_active": 0.1}, replace(MIG, model=""))
    attributes = Deriver(DeriverSettings()).derive(read, reading(BUSY)).entity.attributes
    assert attributes["ofu.gpu.sku"] == "h100-sxm5"
    assert "hw.model" not in attributes


def test_what_is_not_known_is_absent() -> None:
    attributes = derive(reading({}, Device("X", vendor="amd", index=2))).entity.attributes
    assert attributes == {
        "hw.id": "X",
        "hw.vendor": "amd",
        "ofu.gpu.sku": "unknown",
        "ofu.gpu.index": 2,
    }


def test_every_attribute_is_in_the_registry_with_its_type() -> None:
    known = load_registry().attributes
    owner = {"ofu.job.id": "7", "ofu.job.source": "slurm", "slurm.job.id": "7"}
    read = reading(BUSY, MIG, owner=owner, quality="busy_proxy")
    attributes = derive(read, serial_numbers=True, host_name="n").entity.attributes
    for name, value in attributes.items():
        assert isinstance(value, TYPES[known[name].type])
        assert not known[name].values or value in known[name].values


def test_one_entity_for_each_gpu_and_job() -> None:
    deriver = Deriver(DeriverSettings())
    assert deriver.derive(reading(BUSY)).entity.id == "GPU-aa"
    from_source = deriver.derive(reading(BUSY, owner={"ofu.job.id": "7"})).entity
    assert from_source.id == "GPU-aa/7"
    both = deriver.derive(reading(BUSY, owner={"ofu.job.id": "7"}), owner={"ofu.job.id": "8"})
    assert both.entity.id == "GPU-aa/8"
    assert both.entity.attributes["ofu.job.id"] == "8"


def test_another_source_is_a_state_and_no_other_entity() -> None:
    deriver = Deriver(DeriverSettings())
    before = deriver.derive(reading(BUSY))
    device = replace(H100, driver_version="", pci_address="", host="c0ffee")
    after = deriver.derive(replace(reading(BUSY, device), source="dcgm"))
    assert after.entity == before.entity
    states = [[k for k in seen.values if k.startswith("gpu_source")] for seen in (before, after)]
    assert states == [["gpu_source:nvml"], ["gpu_source:dcgm"]]


def test_an_owner_cannot_rename_the_device() -> None:
    entity = derive(reading(BUSY, owner={"hw.id": "other", "ofu.gpu.sku": "b200"})).entity
    assert entity.attributes["hw.id"] == "GPU-aa"
    assert entity.attributes["ofu.gpu.sku"] == "h100-sxm5"


def test_the_host_is_the_devices_own_or_the_agents() -> None:
    assert derive(reading(BUSY), host_name="here").entity.attributes["host.name"] == "node1"
    elsewhere = derive(reading(BUSY, replace(H100, host="")), host_name="here")
    assert elsewhere.entity.attributes["host.name"] == "here"


def test_serial_numbers_only_where_asked_for() -> None:
    assert "hw.serial_number" not in derive(reading(BUSY)).entity.attributes
    attributes = derive(reading(BUSY), serial_numbers=True).entity.attributes
    assert attributes["hw.serial_number"] == "165"


def test_a_device_that_changes_is_described_anew() -> None:
    deriver = Deriver(DeriverSettings())
    deriver.derive(reading(BUSY))
    updated = deriver.derive(reading(BUSY, replace(H100, pci_address="00000000:2B:00.0")))
    assert updated.entity.attributes["ofu.gpu.pci.address"] == "00000000:2B:00.0"
