"""What a healthy GPU gives: every key in the registry's unit, over the right window."""

from __future__ import annotations

import pytest

from otel_ofu.catalog.registry import load_registry
from otel_ofu.model import GapReason, Window
from otel_ofu.sources.nvml.clock_reader import KEYS as CLOCK_KEYS
from tests.sources.nvml.rig import Rig, uuid


def test_the_first_reading_has_all_but_gpm_which_needs_two_samples(rig: Rig) -> None:
    reading = rig.gpu()
    assert reading.gaps["tensor_active"].reason is GapReason.NOT_READY
    assert set(reading.gaps) == {*load_registry().by_gpm_id.values(), *CLOCK_KEYS}
    assert reading.values["sm_clock"] == 1755e6
    assert reading.window.length_s == 0


def test_the_second_reading_has_no_gap_and_speaks_about_the_time_between(rig: Rig) -> None:
    rig.stub.set(gpm__5=43.75)
    first = rig.gpu()
    reading = rig.gpu(after_s=10)
    assert reading.values["tensor_active"] == pytest.approx(0.4375)
    assert reading.gaps == {}
    assert reading.window == Window(first.window.end_s, rig.clock.now_s())
    assert reading.window.length_s == 10


def test_every_key_is_in_the_registry_and_within_its_range(rig: Rig) -> None:
    rig.stub.set(gpm__5=43.75, processes=2)
    rig.read()
    reading = rig.gpu()
    registry = load_registry()
    assert {key: registry.check(key, value) for key, value in reading.values.items()} == (
        dict.fromkeys(reading.values)
    )
    for key in reading.values:
        registry.point_attributes(key)  # the right number of labels
    assert not set(reading.values) & set(reading.gaps)


def test_values_are_in_registry_units(rig: Rig) -> None:
    rig.stub.set(
        power=652345, power_limit=700000, energy=5123456789, gpu_util=97, mem_util=41,
        encoder=12, decoder=3, sm_clock=1755, max_sm_clock=1980, mem_clock=2619,
        power_ns=2.5e9, thermal_ns=1e9, mem_temperature=74, pcie_replays=7,
    )  # fmt: skip
    values = rig.values()
    expected = {
        "power": 652.345, "power_limit": 700.0, "energy": 5123456.789, "gpu_util": 0.97,
        "mem_copy_util": 0.41, "enc_util": 0.12, "dec_util": 0.03, "sm_clock": 1.755e9,
        "max_sm_clock": 1.98e9, "mem_clock": 2.619e9, "max_mem_clock": 2.619e9,
        "throttle_time:power": 2.5, "throttle_time:thermal": 1.0, "temperature": 61,
        "mem_temperature": 74, "mem_used": 62e9, "mem_total": 85520809984, "pcie_link_gen": 5,
        "pcie_max_link_gen": 5, "pcie_link_width": 16, "pcie_max_link_width": 16,
        "pcie_replays": 7,
    }  # fmt: skip
    assert {key: values[key] for key in expected} == pytest.approx(expected)


def test_gpm_rates_are_bytes_and_its_cycles_are_passed_on_as_they_count(rig: Rig) -> None:
    rig.stub.set(gpm__20=1.0, gpm__60=2.0, gpm__250=1755.0)
    rig.read()
    values = rig.values()
    assert values["pcie_tx"] == 1048576
    assert values["nvlink_rx"] == 2 * 1048576
    later = rig.values()
    assert later["mma_cycles_active"] - values["mma_cycles_active"] == 1755.0 * 10_000


def test_errors_and_remapped_rows_are_told_apart(rig: Rig) -> None:
    rig.stub.set(ecc_corrected=3, ecc_uncorrected=1)
    rig.stub.set(rows_corrected=2, rows_uncorrected=5, rows_pending=1, rows_failure=0)
    values = rig.values()
    assert (values["ecc_corrected"], values["ecc_uncorrected"]) == (3, 1)
    assert (values["remapped_rows_corrected"], values["remapped_rows_uncorrected"]) == (2, 5)
    assert (values["row_remap_pending"], values["row_remap_failure"]) == (1, 0)


def test_each_clock_event_bit_sets_its_own_reason_only(rig: Rig) -> None:
    rig.stub.set(clock_reasons=0x20 | 0x80)
    values = rig.values()
    on = {key for key, value in values.items() if key.startswith("throttled:") and value}
    assert on == {"throttled:sw_thermal_slowdown", "throttled:hw_power_brake_slowdown"}
    assert values["throttled:sw_power_cap"] == 0


def test_an_idle_gpu_beside_a_busy_one_keeps_its_zeros(rig: Rig) -> None:
    rig.stub.set(gpus=8, gpm__5=0.0, gpu_util=0)
    rig.stub.set(gpu3__gpm__5=61.0, gpu3__gpu_util=100)
    rig.read()
    readings = rig.read()
    assert len(readings) == 8
    active = [readings[uuid(i)].values["tensor_active"] for i in range(8)]
    assert active == pytest.approx([0, 0, 0, 0.61, 0, 0, 0, 0])
    assert readings[uuid(0)].values["gpu_util"] == 0


def test_a_gpu_is_described_as_the_driver_names_it(rig: Rig) -> None:
    rig.stub.set(gpus=2)
    rig.stub.text(driver="580.82.07")
    device = rig.gpu(1).device
    assert (device.index, device.model) == (1, "NVIDIA H100 80GB HBM3")
    assert device.pci_address == "00000000:1C:00.0"
    assert (device.serial, device.driver_version) == ("165252300001", "580.82.07")
    assert (device.architecture, device.parent, device.sm_share) == ("hopper", "", 1.0)


def test_limits_are_asked_once_until_the_driver_is_opened_again(rig: Rig) -> None:
    for _ in range(3):
        assert rig.values()["max_sm_clock"] == 1980e6
    assert rig.stub.calls("nvmlDeviceGetMaxClockInfo") == 2  # SM and memory
    rig.close()
    rig.stub.set(max_sm_clock=1755)
    assert rig.values()["max_sm_clock"] == 1755e6


def test_processes_are_counted_every_ten_seconds_at_most(rig: Rig) -> None:
    rig.stub.set(processes=3)
    assert rig.values()["process_count"] == 3
    between = rig.gpu(after_s=1)
    assert "process_count" not in between.values
    assert between.gaps["process_count"].reason is GapReason.NOT_READY
    assert rig.values(after_s=9)["process_count"] == 3


def test_a_wall_clock_set_back_does_not_bend_the_window(rig: Rig) -> None:
    rig.read()
    rig.wait(10)
    rig.clock.set(rig.clock.now_s() - 3600)
    window = rig.gpu(after_s=0).window
    assert (window.end_s, window.length_s) == (rig.clock.now_s(), 10)


def test_the_source_works_again_after_close(rig: Rig) -> None:
    rig.stub.set(gpm__5=50.0)
    rig.read()
    assert rig.source is not None
    rig.source.close()
    rig.source.close()
    assert rig.stub.live_samples == 0
    assert rig.gpu().gaps["tensor_active"].reason is GapReason.NOT_READY
    assert rig.values()["tensor_active"] == 0.5
    assert rig.source.name == "nvml"
