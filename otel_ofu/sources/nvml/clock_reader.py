"""The clock of one GPU over a window: the driver's own samples where it keeps them, else ours.

Enters: the window, the clock at its end, the window's shares of activity. Leaves: values and gaps
of the mean clock, its error, the clock while busy and the clock event reasons.
Source: nvml.h, nvmlDeviceGetSamples with NVML_PROCESSOR_CLK_SAMPLES (MHz, Unix microseconds); not
verified on every generation, so what it gives has to reach the end of the window and be dense.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from types import ModuleType
from typing import Any

from otel_ofu.model import Gap, GapReason
from otel_ofu.sources.nvml.client import REASONS, Retry, error_text
from otel_ofu.sources.nvml.clock_sampler import ClockSampler
from otel_ofu.sources.nvml.clocks import ClockSpan, ClockWindow, window_of
from otel_ofu.sources.nvml.devices import Handle

Sample = Any

KEYS = ("sm_clock_mean", "sm_clock_mean_error", "sm_clock_busy")

SPARSE_S = 1.0
"""The driver's samples are used while none is further apart, and the newest no older. Starting
value."""
SPARSE_PAUSE_S = 600.0
"""After which a driver without samples is asked again. Starting value."""
_PROCESSOR_CLOCK = 5  # nvml.h: NVML_PROCESSOR_CLK_SAMPLES

_TOO_FEW = Gap(GapReason.NOT_READY, "too few samples of the SM clock in this window")
_UNKNOWN_BUSY = Gap(GapReason.NOT_READY, "the samples do not show at which clock the GPU was busy")


@dataclass(frozen=True, slots=True)
class ClockInputs:
    """A window (monotonic), what Unix time is ahead of that, and the clock at the end in Hz."""

    start_s: float
    end_s: float
    unix_ahead_s: float
    end_hz: float | None


class DriverClocks:
    """The buffer of the driver, asked once a window."""

    def __init__(self, nvml: ModuleType, handle: Handle) -> None:
        self._nvml = nvml
        self._handle = handle
        self._retry = Retry(SPARSE_PAUSE_S)

    def spans(self, inputs: ClockInputs) -> list[ClockSpan]:
        """Each sample for the time since the one before; empty where the buffer is not filled."""
        if self._retry.standing(inputs.end_s):
            return []
        nvml = self._nvml
        since_us = int((inputs.start_s + inputs.unix_ahead_s - SPARSE_S) * 1e6)
        try:
            _, samples = nvml.nvmlDeviceGetSamples(self._handle, _PROCESSOR_CLOCK, since_us)
        except nvml.NVMLError as error:
            reason = REASONS.get(error.value, GapReason.NOT_SUPPORTED)
            self._retry.failed(Gap(reason, error_text(nvml, error.value)), inputs.end_s)
            return []
        spans = _spans(samples, inputs)
        if not spans:
            gap = Gap(GapReason.NOT_SUPPORTED, "the driver keeps too few samples of the clock")
            self._retry.failed(gap, inputs.end_s)
        return spans


def _spans(samples: list[Sample], inputs: ClockInputs) -> list[ClockSpan]:
    times = [sample.timeStamp / 1e6 - inputs.unix_ahead_s for sample in samples]
    if not times or times[0] > inputs.start_s + SPARSE_S or inputs.end_s - times[-1] > SPARSE_S:
        return []
    if any(not 0 < b - a <= SPARSE_S for a, b in pairwise(times)):
        return []
    clocks = [sample.sampleValue.uiVal * 1e6 for sample in samples]
    spans = [ClockSpan(a, b, hz) for (a, b), hz in zip(pairwise(times), clocks[1:], strict=True)]
    return [ClockSpan(times[0] - SPARSE_S, times[0], clocks[0]), *spans]


class DeviceClock:
    """Used by the reading thread; `sampler` is shared by all GPUs."""

    def __init__(self, uuid: str, driver: DriverClocks, sampler: ClockSampler) -> None:
        self._uuid = uuid
        self._driver = driver
        self._sampler = sampler

    def read(self, inputs: ClockInputs, values: dict[str, float], gaps: dict[str, Gap]) -> None:
        """Adds the clock over the window, with the values of the same window at hand."""
        self._note_work(values, inputs.end_s)
        window = self._window(inputs)
        if window is None:
            gaps.update(dict.fromkeys(KEYS, _TOO_FEW))
            return
        values["sm_clock_mean"] = window.mean_hz()
        values["sm_clock_mean_error"] = window.error_hz()
        values.update({f"throttled:{name}": part for name, part in window.reasons().items()})
        busy_hz = window.busy_hz(values.get("gr_engine_active"), values.get("sm_active"))
        if busy_hz is None:
            gaps["sm_clock_busy"] = _UNKNOWN_BUSY
        else:
            values["sm_clock_busy"] = busy_hz

    def _window(self, inputs: ClockInputs) -> ClockWindow | None:
        sampled = self._sampler.take(self._uuid, inputs.end_s)
        spans = self._driver.spans(inputs)
        if not spans:
            spans = sampled
            reached_s = spans[-1].end_s if spans else inputs.end_s
            if inputs.end_hz is not None and reached_s < inputs.end_s:
                spans = [*spans, ClockSpan(reached_s, inputs.end_s, inputs.end_hz)]
        return window_of(spans, inputs.start_s, inputs.end_s)

    def _note_work(self, values: Mapping[str, float], now_s: float) -> None:
        if any(values.get(key, 1.0) > 0 for key in ("sm_active", "gr_engine_active")):
            self._sampler.works(self._uuid, now_s)
