"""One GPU or MIG instance: everything that is read of it, as one `Reading`.

Enters: its counters and its GPM pair. Leaves: a `Reading` at every call; once the device is lost,
gaps alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from otel_ofu.model import Device, Gap, Reading, Window
from otel_ofu.model.clock import Clock
from otel_ofu.sources.nvml.client import DeviceLostError
from otel_ofu.sources.nvml.clock_reader import KEYS as CLOCK_KEYS
from otel_ofu.sources.nvml.clock_reader import ClockInputs, DeviceClock
from otel_ofu.sources.nvml.counters import NvmlCounter
from otel_ofu.sources.nvml.gpm import GpmPair

NAME = "nvml"


class DeviceReader:
    """Reads one device. `gpm` is its pair, or the gaps that stand for GPM where it has none.

    `clock`: its SM clock between two reads, of a GPU that has GPM.
    """

    def __init__(
        self,
        device: Device,
        counters: Sequence[NvmlCounter],
        gpm: GpmPair | Mapping[str, Gap],
        clock: DeviceClock | None = None,
    ) -> None:
        self.device = device
        self._clock = clock
        self._counters = counters
        self._gpm = gpm
        self._lost: Gap | None = None
        self._last_s: float | None = None

    @property
    def lost(self) -> bool:
        return self._lost is not None

    def lose(self, gap: Gap) -> None:
        """From now on every key is this gap, and the driver is not called any more."""
        self._lost = self._lost or gap

    def read(self, clock: Clock, xids: Mapping[str, float]) -> Reading:
        """The device now; the window begins at the GPM sample before, else at the last read.

        Raises `SourceError` when the whole session is over.
        """
        now_s, monotonic_s = clock.now_s(), clock.monotonic_s()
        values: dict[str, float] = {}
        gaps: dict[str, Gap] = {}
        since_s = None
        if self._lost is None:
            try:
                since_s = self._measure(values, gaps, monotonic_s)
                self._read_clock(values, gaps, (since_s, monotonic_s, now_s - monotonic_s))
            except DeviceLostError as lost:
                self.lose(lost.gap)
        if self._lost is not None:
            values = {}
            gaps = dict.fromkeys(self._keys(), self._lost)
        values.update(xids)
        start_s = since_s if since_s is not None else self._last_s
        self._last_s = monotonic_s
        # Lengths from the monotonic clock: the wall clock may be set back between two reads.
        length_s = 0.0 if start_s is None else monotonic_s - start_s
        return Reading(self.device, Window(now_s - length_s, now_s), NAME, values, gaps)

    def absent(self, gap: Gap, window: Window, xids: Mapping[str, float]) -> Reading:
        """Of a device that is not read now; a call that hangs may be inside its reader."""
        gaps = dict.fromkeys(self._keys(), gap)
        return Reading(self.device, window, NAME, dict(xids), gaps)

    def restart(self, monotonic_s: float) -> None:
        """The call that hung has returned; up to that time there were gaps."""
        self._last_s = monotonic_s
        if isinstance(self._gpm, GpmPair):
            self._gpm.restart()

    def close(self) -> None:
        if isinstance(self._gpm, GpmPair):
            self._gpm.close()

    def _measure(
        self, values: dict[str, float], gaps: dict[str, Gap], monotonic_s: float
    ) -> float | None:
        """Fills both; returns the monotonic time of the GPM sample that the window begins at."""
        since_s = None
        if isinstance(self._gpm, GpmPair):
            measured = self._gpm.read(monotonic_s)
            values.update(measured.values)
            gaps.update(measured.gaps)
            since_s = measured.since_s
        else:
            gaps.update(self._gpm)
        for counter in self._counters:
            counter.read(values, gaps, monotonic_s)
        return since_s

    def _read_clock(
        self,
        values: dict[str, float],
        gaps: dict[str, Gap],
        times_s: tuple[float | None, float, float],
    ) -> None:
        """Over the window of the GPM pair; without one there is none."""
        since_s, monotonic_s, unix_ahead_s = times_s
        if self._clock is None:
            return
        start_s = monotonic_s if since_s is None else since_s
        end_hz = values.get("sm_clock")
        self._clock.read(ClockInputs(start_s, monotonic_s, unix_ahead_s, end_hz), values, gaps)

    def _keys(self) -> Iterator[str]:
        if self._clock is not None:
            yield from CLOCK_KEYS
        yield from self._gpm.keys if isinstance(self._gpm, GpmPair) else self._gpm
        for counter in self._counters:
            yield from counter.keys
