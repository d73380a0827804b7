"""The SM clock between two reads, on the stub and in virtual time."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest

from otel_ofu.model import GapReason, Reading
from otel_ofu.model.clock import SystemClock
from otel_ofu.sources.nvml import NvmlSource
from otel_ofu.sources.nvml.clock_sampler import BUDGET, HOLD_S, LONG_S, SHORT_S
from tests.sources.nvml.rig import NOT_SUPPORTED, TIMEOUT, Rig, Stub
from tests.sources.nvml.traces import REFERENCE_MHZ, STEP_S, Trace, trace

CLOCK = "nvmlDeviceGetClockInfo"
WINDOW_S, WINDOWS = 10.0, 30


def played(rig: Rig, made: Trace, windows: int = WINDOWS) -> list[Reading]:
    """The readings of back-to-back windows that begin with the trace."""
    rig.stub.trace(0, made.rows(), STEP_S)
    rig.gpu(after_s=0)
    return [rig.gpu(after_s=WINDOW_S) for _ in range(windows)]


def errors(made: Trace, readings: list[Reading], clock: str) -> np.ndarray:
    """In points of OFU, per window."""
    return np.array(
        [
            100
            * (
                r.values["tensor_active"] * r.values[clock] / (REFERENCE_MHZ * 1e6)
                - made.between(i * WINDOW_S, (i + 1) * WINDOW_S).ofu()
            )
            for i, r in enumerate(readings)
        ]
    )


@pytest.mark.parametrize("no_idle_reason", [0, 1])
@pytest.mark.parametrize("kind", ["power_cap", "idle_drop", "clock_stops"])
def test_the_clock_while_busy_is_found_or_absent(rig: Rig, kind: str, no_idle_reason: int) -> None:
    rig.stub.set(no_idle_reason=no_idle_reason)
    made = trace(kind, WINDOWS * WINDOW_S)
    readings = played(rig, made)
    found = 0
    for i, reading in enumerate(readings):
        if i * WINDOW_S < HOLD_S:
            continue  # sampled seldom, until the clock is seen to move
        part = made.between(i * WINDOW_S, (i + 1) * WINDOW_S)
        if "sm_clock_busy" in reading.values and part.engine.sum():
            busy_mhz = (part.clock_mhz * part.engine).sum() / part.engine.sum()
            weight = part.engine.mean()
            assert reading.values["sm_clock_busy"] / 1e6 == pytest.approx(
                busy_mhz, rel=0.05 if weight > 0.3 else 0.3
            )
            found += 1
    assert found >= WINDOWS / 4


def test_throttle_reasons_are_shares_of_the_window(rig: Rig) -> None:
    reading = played(rig, trace("in_phase", 20), 2)[-1]
    assert reading.values["throttled:sw_power_cap"] == pytest.approx(0.7, abs=0.02)
    assert reading.values["throttled:gpu_idle"] == pytest.approx(0.3, abs=0.02)
    assert reading.values["throttled:hw_slowdown"] == 0


def test_the_driver_s_own_samples_are_used_where_it_keeps_them(rig: Rig) -> None:
    rig.stub.set(clock_samples_ms=100, epoch_ms=1_700_000_000_000)
    made = trace("power_cap", 40)
    wrong = errors(made, played(rig, made, 4), "sm_clock_mean")
    assert np.sqrt((wrong**2).mean()) <= 0.5
    assert rig.stub.calls("nvmlDeviceGetSamples") == 2 * 5  # the bindings ask for the size first


@pytest.mark.parametrize("how", [{"clock_samples_ms": 5000}, {"clock_samples_ms": 0}])
def test_without_dense_samples_of_the_driver_there_are_our_own(
    rig: Rig, how: dict[str, float]
) -> None:
    rig.stub.set(epoch_ms=1_700_000_000_000, **how)
    made = trace("power_cap", 40)
    wrong = errors(made, played(rig, made, 4), "sm_clock_mean")
    assert np.sqrt((wrong**2).mean()) <= 0.7
    assert rig.stub.calls("nvmlDeviceGetSamples") <= 4  # and it is not asked every time


def test_a_clock_that_stands_still_is_sampled_seldom_and_one_that_moves_again_often(
    rig: Rig,
) -> None:
    rig.stub.set(gpm__5=40.0, gpm__1=100.0, gpm__2=90.0)
    rig.gpu()
    rig.wait(10)
    still = _calls_in(rig, 10)
    assert still <= 10 / LONG_S + 4  # and two clocks of the read itself
    rig.stub.set(sm_clock=1410)
    rig.wait(2 * LONG_S)
    assert _calls_in(rig, 10) >= 10 / SHORT_S - 2


def test_an_idle_gpu_is_sampled_seldom_although_its_clock_moves(rig: Rig) -> None:
    rng = np.random.default_rng(3)
    steps = round(120 / STEP_S)
    clock = 345 + 60 * rng.random(steps)
    rig.stub.trace(0, Trace(np.floor(clock), np.zeros(steps)).rows(), STEP_S)
    rig.gpu(after_s=0)
    rig.gpu(after_s=HOLD_S + 1)
    assert _calls_in(rig, 10) <= 10 / LONG_S + 4


def test_samples_that_cost_much_become_fewer_until_the_thread_keeps_to_its_budget(rig: Rig) -> None:
    rig.step_cpu_s = 0.003
    for _ in range(3):
        rig.gpu()
    begun_s = rig.clock.monotonic_s()
    before_s = rig.source.costs()["clock_sampler_time"] if rig.source else 0.0
    rig.stub.trace(0, trace("power_cap", 400).rows(), STEP_S)
    readings = [rig.gpu() for _ in range(10)]
    assert rig.source is not None
    costs = rig.source.costs()
    spent_s = costs["clock_sampler_time"] - before_s
    assert spent_s <= 1.1 * BUDGET * (rig.clock.monotonic_s() - begun_s)
    assert costs["clock_sampler_interval"] == pytest.approx(0.003 / BUDGET)
    assert readings[-1].values["sm_clock_mean_error"] > 0


def test_a_clock_that_cannot_be_read_leaves_the_window_without_a_mean(rig: Rig) -> None:
    rig.stub.set(gpm__5=40.0, nvmlDeviceGetClockInfo=NOT_SUPPORTED)
    rig.gpu()
    reading = rig.gpu()
    assert reading.values["tensor_active"] == pytest.approx(0.4)
    assert reading.gaps["sm_clock_mean"].reason is GapReason.NOT_READY
    assert not {"sm_clock", "sm_clock_mean"} & set(reading.values)


def test_a_driver_that_fails_for_a_while_does_not_make_one_sample_stand_for_all_of_it(
    rig: Rig,
) -> None:
    rig.stub.set(gpm__5=40.0)
    rig.gpu()
    rig.stub.set(nvmlDeviceGetClockInfo=TIMEOUT)
    rig.wait(8)
    rig.stub.set(nvmlDeviceGetClockInfo=0)
    assert "sm_clock_mean" not in rig.gpu(after_s=2).values


def test_a_gpu_without_gpm_is_not_sampled(rig: Rig) -> None:
    rig.stub.set(architecture=8)
    rig.gpu()
    assert _calls_in(rig, 10) == 2


def test_the_thread_samples_in_real_time_and_ends_with_the_source(stub: Stub) -> None:
    stub.set(gpm__5=40.0)
    source = NvmlSource(stub.path, clock=SystemClock())
    source.open()
    assert "nvml-clock" not in _threads()
    source.read(0.0)
    assert "nvml-clock" in _threads()
    calls = stub.calls(CLOCK)
    deadline_s = time.monotonic() + 30
    while stub.calls(CLOCK) < calls + 3 and time.monotonic() < deadline_s:
        threading.Event().wait(0.02)
    assert stub.calls(CLOCK) >= calls + 3
    source.close()
    assert "nvml-clock" not in _threads()


def _calls_in(rig: Rig, seconds: float) -> int:
    before = rig.stub.calls(CLOCK)
    rig.gpu(after_s=seconds)
    return rig.stub.calls(CLOCK) - before


def _threads() -> set[str]:
    return {thread.name for thread in threading.enumerate()}
