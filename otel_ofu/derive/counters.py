"""What cumulative counters hold beyond their value: when they began, and OFU from cycles.

Enters: readings, window by window. Leaves: the start of each counter that appeared with its first
event (an XID has no series before) while its device was read: the end of the last reading without
it, from which time on it is known to have been 0. A counter that is there in the first reading of a
device has an unknown past, and no start. And of the cycle counters the `CycleShare` of a window, or
None as long as the sampled product has to do.

The driver does not report whether it counts the cycles of one SM, of all, or of all sub-partitions.
k = d_elapsed / (f x dt) shows it, and is trusted only when it is near one of these and d_mma /
d_elapsed agrees with the sampled tensor activity, in several windows in a row.
Source: NVML GPM metrics 248 and 250, DCGM 4.6 fields 1084 and 1086 (scale not documented).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from otel_ofu.catalog.registry import Registry
from otel_ofu.derive.formulas import mean_clock_hz
from otel_ofu.model import Reading, Window


@dataclass(frozen=True, slots=True)
class CounterStart:
    """`start_s`: until then it was 0; `seen_s`: the end of the reading that first had it."""

    start_s: float
    seen_s: float


@dataclass(slots=True)
class _Device:
    """`read_s`: the end of the last reading with values; `known`: counters that were ever there.

    `last`: their values. One that fell began anew: the driver was loaded again, or another source
    counts from its own beginning.
    """

    read_s: float
    known: set[str]
    last: dict[str, float]
    beginnings: dict[str, CounterStart] = field(default_factory=dict)


class CounterStarts:
    """By device, for the past of its counters is not that of a job on it."""

    def __init__(self, registry: Registry) -> None:
        self._names = {key for key, metric in registry.metrics.items() if metric.is_sparse}
        self._devices: dict[str, _Device] = {}

    def observe(self, reading: Reading) -> Mapping[str, CounterStart]:
        """The known beginnings of a device's counters; a reading may be given more than once."""
        device = self._devices.get(reading.device.uuid)
        if device is None:
            return self._first(reading)
        for key in self._sparse(reading.values):
            if key not in device.known or reading.values[key] < device.last.get(key, 0.0):
                device.beginnings[key] = CounterStart(device.read_s, reading.window.end_s)
                device.known.add(key)
            device.last[key] = reading.values[key]
        device.known.update(self._sparse(reading.gaps))
        if reading.values:
            device.read_s = reading.window.end_s
        return device.beginnings

    def retain(self, devices: Collection[str]) -> None:
        """Forgets all other devices."""
        self._devices = {uuid: known for uuid, known in self._devices.items() if uuid in devices}

    def _first(self, reading: Reading) -> Mapping[str, CounterStart]:
        if reading.values:
            known = {*self._sparse(reading.values), *self._sparse(reading.gaps)}
            last = {key: reading.values[key] for key in self._sparse(reading.values)}
            self._devices[reading.device.uuid] = _Device(reading.window.end_s, known, last)
        return {}

    def _sparse(self, keys: Iterable[str]) -> Iterable[str]:
        return [key for key in keys if key.partition(":")[0] in self._names]


SUB_PARTITIONS = 4  # of an SM, Volta and later. Source: NVIDIA Volta architecture white paper

# Our own starting values, not measured. The clock is a sample and moves under a power cap; the
# candidates for k lie far apart, so a wide band cannot confuse them.
SCALE_BAND = 0.15
ACTIVITY_BAND = 0.02
LEAST_ACTIVITY = 0.05
AGREEING_WINDOWS = 3
WINDOW_BAND = 0.05


@dataclass(frozen=True, slots=True)
class CycleShare:
    """One window by the counters: active tensor cycles, their scale, time, and the mean clock."""

    mma_cycles: float
    scale: float
    elapsed_s: float
    clock_hz: float


def nearest_scale(ratio: float, sms: int | None) -> int | None:
    """The possible count of cycles in one clock that `ratio` is near to: 1, SMs or SMs x 4."""
    candidates = (1,) if sms is None else (1, sms, sms * SUB_PARTITIONS)
    return next((k for k in candidates if abs(ratio / k - 1) <= SCALE_BAND), None)


class CycleMeter:
    """Previous totals and the scale of one GPU's counters."""

    def __init__(self) -> None:
        self._previous: tuple[float, float, float] | None = None
        self._scale: int | None = None
        self._candidate: int | None = None
        self._agreeing = 0

    def observe(
        self, values: Mapping[str, float], window: Window, sms: int | None
    ) -> CycleShare | None:
        """The window by its counters; None without them, before calibration, after a reset."""
        elapsed, mma = values.get("sm_cycles_elapsed"), values.get("mma_cycles_active")
        if elapsed is None or mma is None:
            return None
        previous, self._previous = self._previous, (window.end_s, elapsed, mma)
        if previous is None:
            return None
        elapsed_s, d_elapsed, d_mma = (
            window.end_s - previous[0],
            elapsed - previous[1],
            mma - previous[2],
        )
        if d_elapsed < 0 or d_mma < 0:
            self._forget_scale()
        if not _spans(window, elapsed_s) or d_elapsed <= 0 or not 0 <= d_mma <= d_elapsed:
            return None
        if self._scale is None:
            self._calibrate(values, d_elapsed / elapsed_s, d_mma / d_elapsed, sms)
        if self._scale is None:
            return None
        clock_hz = mean_clock_hz(d_elapsed, self._scale, elapsed_s)
        return CycleShare(d_mma, self._scale, elapsed_s, clock_hz)

    def _calibrate(
        self, values: Mapping[str, float], cycles_per_s: float, share: float, sms: int | None
    ) -> None:
        tensor, clock_hz = values.get("tensor_active"), values.get("sm_clock")
        if not tensor or not clock_hz or tensor < LEAST_ACTIVITY:
            return
        scale = nearest_scale(cycles_per_s / clock_hz, sms)
        if scale is None or abs(share - tensor) > ACTIVITY_BAND:
            self._agreeing = 0
            return
        self._agreeing = self._agreeing + 1 if scale == self._candidate else 1
        self._candidate = scale
        if self._agreeing >= AGREEING_WINDOWS:
            self._scale = scale

    def _forget_scale(self) -> None:
        """A reset may mean another driver, which may count otherwise."""
        self._scale, self._candidate, self._agreeing = None, None, 0


def _spans(window: Window, elapsed_s: float) -> bool:
    """Whether the differences speak about this window alone and not also about a missed one."""
    length_s = window.length_s
    return length_s > 0 and abs(elapsed_s - length_s) <= WINDOW_BAND * length_s
