"""Numbers of nvml.h that are written here, against those of the vendor's bindings."""

from __future__ import annotations

import math

import pynvml
import pytest

from otel_ofu.catalog.registry import load_registry
from otel_ofu.model import Gap, GapReason
from otel_ofu.sources.nvml import client, counters, devices
from otel_ofu.sources.nvml.client import Retry


def test_clock_event_bits_are_those_of_the_vendor() -> None:
    names = {
        "gpu_idle": "GpuIdle",
        "applications_clocks_setting": "ApplicationsClocksSetting",
        "sw_power_cap": "SwPowerCap",
        "hw_slowdown": "HwSlowdown",
        "sync_boost": "SyncBoost",
        "sw_thermal_slowdown": "SwThermalSlowdown",
        "hw_thermal_slowdown": "HwThermalSlowdown",
        "hw_power_brake_slowdown": "HwPowerBrakeSlowdown",
        "display_clock_setting": "DisplayClockSetting",
        "board_limit": "BoardLimit",
        "reliability": "Reliability",
    }
    theirs = {
        ours: getattr(pynvml, f"nvmlClocksThrottleReason{name}") for ours, name in names.items()
    }
    assert theirs == counters.CLOCK_EVENT_BITS
    allowed = load_registry().attributes["ofu.throttle.reason"].values
    assert set(counters.CLOCK_EVENT_BITS) <= set(allowed)


def test_fields_and_clock_domains_are_those_of_the_vendor() -> None:
    assert pynvml.NVML_FI_DEV_MEMORY_TEMP == counters.MEMORY_TEMPERATURE_FIELD
    assert (pynvml.NVML_CLOCK_SM, pynvml.NVML_CLOCK_MEM) == (counters.SM_CLOCK, counters.MEM_CLOCK)
    assert pynvml.nvmlMemory_v2 == counters._MEMORY_V2
    assert (pynvml.NVML_PERF_POLICY_POWER, pynvml.NVML_PERF_POLICY_THERMAL) == (0, 1)
    assert len(counters._FIELD_MEMBERS) == pynvml.NVML_VALUE_TYPE_COUNT


def test_codes_are_those_of_the_vendor() -> None:
    for codes in (client.SESSION_OVER, client.LOST):
        assert codes == {getattr(pynvml, f"NVML_ERROR_{name}"): name for name in codes.values()}
    for name in ("INVALID_ARGUMENT", "NOT_FOUND", "TIMEOUT", "NOT_SUPPORTED"):
        assert getattr(client, name) == getattr(pynvml, f"NVML_ERROR_{name}")
    assert client.REASONS == {
        pynvml.NVML_ERROR_NOT_SUPPORTED: GapReason.NOT_SUPPORTED,
        pynvml.NVML_ERROR_NO_PERMISSION: GapReason.NOT_PERMITTED,
        pynvml.NVML_ERROR_FUNCTION_NOT_FOUND: GapReason.NOT_SUPPORTED,
        pynvml.NVML_ERROR_NO_DATA: GapReason.NOT_READY,
        pynvml.NVML_ERROR_VGPU_ECC_NOT_SUPPORTED: GapReason.NOT_SUPPORTED,
        pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH: GapReason.NOT_SUPPORTED,
        pynvml.NVML_ERROR_DEPRECATED: GapReason.NOT_SUPPORTED,
        pynvml.NVML_ERROR_NOT_READY: GapReason.NOT_READY,
    }


def test_architectures_are_those_of_the_vendor() -> None:
    for code, name in devices._ARCHITECTURES.items():
        assert getattr(pynvml, f"NVML_DEVICE_ARCH_{name.upper()}") == code


def pauses(reason: GapReason, *, failures: int, unsupported_pause_s: float) -> list[float]:
    """The time from each failure to the next call that is due, in seconds."""
    retry, now_s, seen = Retry(unsupported_pause_s), 0.0, []
    for _ in range(failures):
        retry.failed(Gap(reason), now_s)
        start_s = now_s
        while retry.standing(now_s) and now_s - start_s < 5000:
            now_s += 1.0
        seen.append(now_s - start_s)
    return seen


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        (GapReason.NOT_SUPPORTED, [300, 300, 300, 300, 300, 300, 300]),
        (GapReason.NOT_PERMITTED, [30, 60, 120, 240, 480, 600, 600]),
        (GapReason.FAILED, [0, 0, 30, 60, 120, 240, 480]),
        (GapReason.NOT_READY, [0, 0, 0, 0, 0, 0, 0]),
    ],
)
def test_the_pause_before_the_next_call_follows_from_the_reason(
    reason: GapReason, expected: list[float]
) -> None:
    assert pauses(reason, failures=7, unsupported_pause_s=300) == expected


def test_what_a_plain_call_does_not_support_is_never_asked_again() -> None:
    retry = Retry()
    retry.failed(Gap(GapReason.NOT_SUPPORTED), 0.0)
    assert retry.standing(math.nextafter(math.inf, 0)) is not None


def test_success_takes_the_patience_back() -> None:
    retry = Retry()
    for _ in range(5):
        retry.failed(Gap(GapReason.NOT_PERMITTED), 0.0)
    retry.succeeded()
    retry.failed(Gap(GapReason.FAILED), 0.0)
    assert retry.standing(0.0) is None
    retry.failed(Gap(GapReason.NOT_PERMITTED), 0.0)
    assert retry.standing(29.0) is not None
    assert retry.standing(30.0) is None
