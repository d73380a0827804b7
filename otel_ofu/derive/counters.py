"""What cumulative counters hold beyond their value: when they began, and OFU from cycles.

Enters: readings, window by window. Leaves: the start of each counter that appeared with its first
event (an XID has no series before) while its device was read: the end of the last reading without
it, from which time on it is known to have been 0. A counter that is there in the first reading of a
device has an unknown past, and no start. A counter that falls was reset, and began anew at the end
of the reading before. And of the cycle counters the `CycleShare` of a window, or
None as long as the sampled product has to do.

The driver does not report whether it counts the cycles of one SM, of all, or of all sub-partitions.
k = d_elapsed / (f x dt) shows it, with a clock f that is known well: the mean of the window with a
small error, or one that is the same at both ends. The candidates for k lie so far apart that one
such window is enough, if k is near one of them and d_mma / d_elapsed agrees with the tensor
activity. Differences are divided by the time between the counters' own samples.
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
    """`start_s`: until then it was 0; `seen_s`: the end of the reading that first showed it."""

    start_s: float
    seen_s: float


@dataclass(slots=True)
class _Device:
    """`read_s`: the end of the last reading with values; `known`: counters that were ever there.

    `totals`: the last value of each counter. One that fell began anew: the driver was loaded again,
    or another source counts from its own beginning.
    """

    read_s: float
    known: set[str]
    beginnings: dict[str, CounterStart] = field(default_factory=dict)
    totals: dict[str, float] = field(default_factory=dict)


class CounterStarts:
    """By device, for the past of its counters is not that of a job on it."""

    def __init__(self, registry: Registry) -> None:
        self._names = {key for key, metric in registry.metrics.items() if metric.is_sparse}
        self._measured = {
            key
            for key, metric in registry.metrics.items()
            if metric.kind == "counter" and not metric.derived
        }
        self._devices: dict[str, _Device] = {}
        self._kinds: dict[str, tuple[bool, bool]] = {}

    def observe(self, reading: Reading, values: Mapping[str, float]) -> Mapping[str, CounterStart]:
        """The known beginnings of a device's counters; a reading may be given more than once.

        `values`: those of the reading that are possible.
        """
        device = self._devices.get(reading.device.uuid)
        if device is None:
            return self._first(reading, values)
        self._note_resets(device, values, reading.window.end_s)
        for key in self._sparse(reading.values):
            if key not in device.known:
                device.beginnings[key] = CounterStart(device.read_s, reading.window.end_s)
                device.known.add(key)
        device.known.update(self._sparse(reading.gaps))
        if reading.values:
            device.read_s = reading.window.end_s
        return device.beginnings

    def observe_events(self, reading: Reading) -> Mapping[str, CounterStart]:
        """The same of a reading that has events alone, and may overtake one with the rest."""
        device = self._devices.get(reading.device.uuid)
        if device is None:
            return {}
        for key in reading.values:
            if key not in device.known:
                device.beginnings[key] = CounterStart(device.read_s, reading.window.end_s)
                device.known.add(key)
        return device.beginnings

    def retain(self, devices: Collection[str]) -> None:
        """Forgets all other devices."""
        self._devices = {uuid: known for uuid, known in self._devices.items() if uuid in devices}

    def _note_resets(self, device: _Device, values: Mapping[str, float], end_s: float) -> None:
        totals, kinds = device.totals, self._kinds
        for key, value in values.items():
            if not (kinds.get(key) or self._kind(key))[1]:
                continue
            if value < totals.get(key, value):
                device.beginnings[key] = CounterStart(device.read_s, end_s)
            totals[key] = value

    def _first(self, reading: Reading, values: Mapping[str, float]) -> Mapping[str, CounterStart]:
        if reading.values:
            known = {*self._sparse(reading.values), *self._sparse(reading.gaps)}
            device = _Device(reading.window.end_s, known)
            self._note_resets(device, values, reading.window.end_s)
            self._devices[reading.device.uuid] = device
        return {}

    def _sparse(self, keys: Iterable[str]) -> Iterable[str]:
        kinds = self._kinds
        return [key for key in keys if (kinds.get(key) or self._kind(key))[0]]

    def _kind(self, key: str) -> tuple[bool, bool]:
        """Whether it is sparse, and whether it is a measured counter; looked up for each key."""
        base = key.partition(":")[0]
        kind = (base in self._names, key in self._measured or base in self._measured)
        if len(self._kinds) < _MOST_KEYS:
            self._kinds[key] = kind
        return kind


_MOST_KEYS = 4096  # far more than the registry has: a source with endless names fills nothing

SUB_PARTITIONS = 4  # of an SM, Volta and later. Source: NVIDIA Volta architecture white paper

# Our own starting values. A clock that is the same at both ends may have moved between; on the
# traces of bench/clock.py no window within these bands gives a wrong k.
SCALE_BAND = 0.15
CLOCK_BAND = 0.05
ACTIVITY_BAND = 0.02
LEAST_ACTIVITY = 0.05
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
        self._end_hz: float | None = None
        self._share: CycleShare | None = None

    def observe(
        self, values: Mapping[str, float], window: Window, sms: int | None
    ) -> CycleShare | None:
        """The counters' own window; None without them, before calibration, after a reset.

        A window that is given once more, of a page that was not refreshed, is what it was.
        """
        elapsed, mma = values.get("sm_cycles_elapsed"), values.get("mma_cycles_active")
        if self._previous is None or self._previous != (window.end_s, elapsed, mma):
            self._share = self._observed(values, window, sms)
        return self._share

    def _observed(
        self, values: Mapping[str, float], window: Window, sms: int | None
    ) -> CycleShare | None:
        clock_hz = self._clock(values)
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
            self._scale = None  # a reset may mean another driver, which may count otherwise
        if not _spans(window, elapsed_s) or d_elapsed <= 0 or not 0 <= d_mma <= d_elapsed:
            return None
        if self._scale is None and clock_hz and _agrees(values, d_mma / d_elapsed):
            self._scale = nearest_scale(d_elapsed / elapsed_s / clock_hz, sms)
        if self._scale is None:
            return None
        mean_hz = mean_clock_hz(d_elapsed, self._scale, elapsed_s)
        return CycleShare(d_mma, self._scale, elapsed_s, mean_hz)

    def _clock(self, values: Mapping[str, float]) -> float | None:
        """The clock of the window in Hz where it is known well enough to calibrate."""
        before_hz, self._end_hz = self._end_hz, values.get("sm_clock")
        mean_hz, error_hz = values.get("sm_clock_mean"), values.get("sm_clock_mean_error")
        if mean_hz is not None and error_hz is not None:
            return mean_hz if error_hz <= CLOCK_BAND * mean_hz else None
        if before_hz is None or self._end_hz is None:
            return None
        apart_hz = abs(self._end_hz - before_hz)
        return (before_hz + self._end_hz) / 2 if apart_hz <= CLOCK_BAND * before_hz else None


def _agrees(values: Mapping[str, float], share: float) -> bool:
    """Whether the counters show the activity that was measured beside them, and there is some."""
    tensor = values.get("tensor_active", 0.0)
    return tensor >= LEAST_ACTIVITY and abs(share - tensor) <= ACTIVITY_BAND


def _spans(window: Window, elapsed_s: float) -> bool:
    """Whether the differences speak about this window alone and not also about a missed one."""
    length_s = window.length_s
    return length_s > 0 and abs(elapsed_s - length_s) <= WINDOW_BAND * length_s
