"""One GPU or MIG instance: everything that is read of it, as one `Reading`.

Enters: its counters and its GPM pair. Leaves: a `Reading` at every call; once the device is lost,
gaps alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from otel_ofu.model import Device, Gap, Reading, Window
from otel_ofu.model.clock import Clock
from otel_ofu.sources.nvml.counters import Counter
from otel_ofu.sources.nvml.gpm import GpmPair
from otel_ofu.sources.nvml.statuses import DeviceLost

NAME = "nvml"


class DeviceReader:
    """Reads one device. `gpm` is its pair, or the gaps that stand for GPM where it has none."""

    def __init__(
        self, device: Device, counters: Sequence[Counter], gpm: GpmPair | Mapping[str, Gap]
    ) -> None:
        self.device = device
        self._counters = counters
        self._gpm = gpm
        self._lost: Gap | None = None
        self._last_s: float | None = None

    @property
    def lost(self) -> bool:
        return self._lost is not None

    def lose(self, gap: Gap) -> None:
        """From now on every key is this gap, and the driver is not asked any more."""
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
            except DeviceLost as lost:
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

    def _keys(self) -> Iterator[str]:
        yield from self._gpm.keys if isinstance(self._gpm, GpmPair) else self._gpm
        for counter in self._counters:
            yield from counter.keys
