"""GPM: what the SMs and links did between two samples of a GPU or MIG instance.

Enters: a way to take a sample, called from one thread. Leaves: the registry's GPM keys in registry
units, each a value or a gap.
Source: nvml.h, GPM functions; at least 100 ms between two samples; utilizations in percent,
rates in MiB/s, ids 248 to 260 cumulative since reboot.
"""

from __future__ import annotations

import ctypes
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from otel_ofu.catalog.registry import Registry
from otel_ofu.model import Gap, GapReason
from otel_ofu.sources.nvml.client import (
    INVALID_ARGUMENT,
    NOT_SUPPORTED,
    REASONS,
    Retry,
    error_text,
    gap_of,
)
from otel_ofu.sources.nvml.devices import Handle

_log = logging.getLogger(__name__)

Sample = Any  # an opaque pointer of the untyped bindings

MIN_SPAN_S = 0.1  # nvml.h
CAPACITY = 512  # more than any driver knows ids, so that one request fits all versions
UNSUPPORTED_PAUSE_S = 300.0  # starting value
# The newest id of the driver generations before 610, 595 and 575.
_GENERATIONS = (332, 209, 97)
_VERSION = 1
_UNKNOWN = 999
_TOLERANCE_S = 1e-6  # of subtracting two floats, so that a 100 ms interval is no less

NO_GPM = (
    "this GPU has no GPM (Hopper and later, GeForce RTX 50); "
    "use DCGM or dcgm-exporter for its tensor activity"
)
FIRST_SAMPLE = Gap(GapReason.NOT_READY, "first GPM sample; a value needs two")
NO_NUMBER = Gap(GapReason.NOT_READY, "nvmlGpmMetricsGet gave no number (NaN) for this window")


class GpmMetric(ctypes.Structure):
    """nvmlGpmMetric_t; 40 bytes in every version of the header."""

    _fields_ = (
        ("id", ctypes.c_uint),
        ("code", ctypes.c_int),
        ("value", ctypes.c_double),
        ("names", ctypes.c_void_p * 3),
    )


class GpmMetricsStruct(ctypes.Structure):
    """nvmlGpmMetricsGet_t, longer than in any header: the driver reads `count` metrics only."""

    _fields_ = (
        ("version", ctypes.c_uint),
        ("count", ctypes.c_uint),
        ("older", ctypes.c_void_p),
        ("newer", ctypes.c_void_p),
        ("metrics", GpmMetric * CAPACITY),
    )


@dataclass(frozen=True, slots=True)
class GpmValues:
    """Values and gaps of one pair; `since_s` (monotonic) is the older sample, None without one."""

    values: Mapping[str, float]
    gaps: Mapping[str, Gap]
    since_s: float | None = None


class GpmRequest:
    """The request of a GPU and its instances: filled in once, one call at a time.

    Each GPU has its own, for a call that hangs keeps it.
    """

    def __init__(self, nvml: ModuleType, registry: Registry) -> None:
        self._nvml = nvml
        rows = sorted(
            (metric.gpm.id, key, metric.gpm.scale)
            for key, metric in registry.metrics.items()
            if metric.gpm
        )
        self.keys = tuple(key for _, key, _ in rows)
        self._ids = tuple(row[0] for row in rows)
        self._request = GpmMetricsStruct(version=_VERSION)
        blank = [GpmMetric(id=row[0], code=_UNKNOWN, value=float("nan")) for row in rows]
        self._blank = (GpmMetric * len(rows))(*blank)
        # Bound once: each is a view of the request's memory, so reading it allocates nothing.
        self._slots = [
            (self._request.metrics[i], key, scale) for i, (_, key, scale) in enumerate(rows)
        ]
        self._counts = self._generations()
        self._gaps: dict[tuple[int, int], Gap] = {}
        self._dropped: dict[str, Gap] = {}

    def measure(self, older: int, newer: int) -> GpmValues:
        """What happened between two samples (addresses). Raises the error of the bindings."""
        self._request.older, self._request.newer = older, newer
        self._call()
        values: dict[str, float] = {}
        gaps = dict(self._dropped)
        for slot, key, scale in self._slots[: self._counts[0]]:
            code, value = slot.code, slot.value
            if code:
                gaps[key] = self._gap(slot.id, code)
            elif value != value:  # noqa: PLR0124 - NaN
                gaps[key] = NO_NUMBER
            else:
                values[key] = value * scale
        return GpmValues(values, gaps)

    def _generations(self) -> list[int]:
        """How many ids to ask for: all, then those that older drivers know; strictly fewer."""
        known = [sum(i <= newest for i in self._ids) for newest in _GENERATIONS]
        return sorted({len(self._ids), *known}, reverse=True)

    def _call(self) -> None:
        """Asks for fewer ids when the whole call is refused; remembers what was accepted."""
        for count in tuple(self._counts):
            ctypes.memmove(self._request.metrics, self._blank, ctypes.sizeof(self._blank))
            self._request.count = count
            try:
                self._nvml.nvmlGpmMetricsGet(self._request)
            except self._nvml.NVMLError as error:
                last = count == self._counts[-1]
                if last or error.value not in (INVALID_ARGUMENT, NOT_SUPPORTED):
                    raise
            else:
                self._accept(count)
                return

    def _accept(self, count: int) -> None:
        if count == self._counts[0]:
            return
        self._counts = [c for c in self._counts if c <= count]
        for metric_id, key in zip(self._ids[count:], self.keys[count:], strict=True):
            detail = f"this driver does not support GPM metric {metric_id}"
            self._dropped[key] = Gap(GapReason.NOT_SUPPORTED, detail)

    def _gap(self, metric_id: int, code: int) -> Gap:
        gap = self._gaps.get((metric_id, code))
        if gap is None:
            gap = gap_of(self._nvml, code, f"GPM metric {metric_id}")
            self._gaps[metric_id, code] = gap
        return gap


class GpmPair:
    """Two samples of one GPU or MIG instance, taken in turn; the older one is the baseline."""

    def __init__(
        self, nvml: ModuleType, request: GpmRequest, take: Callable[[Sample], object], function: str
    ) -> None:
        self._nvml = nvml
        self._request = request
        self._take = take
        self._function = function
        self._samples: list[Sample] = []  # baseline first
        self._baseline_s: float | None = None
        self._retry = Retry(UNSUPPORTED_PAUSE_S)

    @property
    def keys(self) -> tuple[str, ...]:
        return self._request.keys

    def read(self, monotonic_s: float) -> GpmValues:
        """The metrics since the sample before. Raises `DeviceLost` and `SourceError`."""
        gap = self._retry.standing(monotonic_s) or self._too_close(monotonic_s)
        if gap:
            return self._absent(gap)
        try:
            self._allocate()
            self._take(self._samples[1])
        except self._nvml.NVMLError as error:
            return self._failed(error.value, self._function, monotonic_s)
        return self._compare(monotonic_s)

    def restart(self) -> None:
        """The next sample is a first one."""
        self._baseline_s = None

    def close(self) -> None:
        """Frees the samples. The driver forgets them itself when it is gone already."""
        while self._samples:
            sample = self._samples.pop()
            try:
                self._nvml.nvmlGpmSampleFree(sample)
            except self._nvml.NVMLError as error:
                _log.info("nvmlGpmSampleFree: %s (%d)", error, error.value)

    def _compare(self, monotonic_s: float) -> GpmValues:
        since_s, self._baseline_s = self._baseline_s, monotonic_s
        self._samples.reverse()  # also after a failure below: the newest is a fresh start
        if since_s is None:
            return self._absent(FIRST_SAMPLE)
        newer, older = map(_address, self._samples)
        try:
            measured = self._request.measure(older, newer)
        except self._nvml.NVMLError as error:
            return self._failed(error.value, "nvmlGpmMetricsGet", monotonic_s)
        self._retry.succeeded()
        return GpmValues(measured.values, measured.gaps, since_s)

    def _too_close(self, monotonic_s: float) -> Gap | None:
        if self._baseline_s is None:
            return None
        span_s = monotonic_s - self._baseline_s
        if span_s >= MIN_SPAN_S - _TOLERANCE_S:
            return None
        return Gap(GapReason.NOT_READY, f"{span_s * 1e3:.0f} ms since the last sample; 100 needed")

    def _failed(self, code: int, function: str, monotonic_s: float) -> GpmValues:
        gap = gap_of(self._nvml, code, function)
        self._retry.failed(gap, monotonic_s)
        if self._retry.standing(monotonic_s):
            self._baseline_s = None  # a pair over the pause would speak about too long a time
        return self._absent(gap)

    def _absent(self, gap: Gap) -> GpmValues:
        return GpmValues({}, dict.fromkeys(self.keys, gap))

    def _allocate(self) -> None:
        while len(self._samples) < 2:  # noqa: PLR2004 - a pair
            self._samples.append(self._nvml.nvmlGpmSampleAlloc())


def _address(sample: Sample) -> int:
    return ctypes.cast(sample, ctypes.c_void_p).value or 0


def gpm_refusal(nvml: ModuleType, handle: Handle, driver_version: str) -> str:
    """Why this GPU has no GPM as the driver reports it; empty if it has, or is not reported."""
    try:
        supported = nvml.nvmlGpmQueryDeviceSupport(handle).isSupportedDevice
    except nvml.NVMLError as error:
        if REASONS.get(error.value) is not GapReason.NOT_SUPPORTED:
            return ""  # the samples will show
        return f"driver {driver_version} has no GPM for this GPU: {error_text(nvml, error.value)}"
    return "" if supported else NO_GPM
