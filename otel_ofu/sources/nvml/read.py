"""One GPU or MIG instance: everything that is read of it, as one `Reading`; and its XIDs.

Enters: its counters and its GPM pair. Leaves: a `Reading` at every call; once the device is lost,
gaps alone. XIDs, the driver's error events, are counted for each GPU since the agent started, as
`xid:<code>`; the driver is waited for in a thread of its own, for an event without a waiting call
is lost.
"""

from __future__ import annotations

import ctypes
import logging
import queue
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import ModuleType
from typing import Any

from otel_ofu.model import Device, Gap, Reading, Window
from otel_ofu.model.clock import Clock
from otel_ofu.sources.nvml.client import LOST, TIMEOUT, DeviceLostError, error_text
from otel_ofu.sources.nvml.clock_reader import KEYS as CLOCK_KEYS
from otel_ofu.sources.nvml.clock_reader import ClockInputs, DeviceClock
from otel_ofu.sources.nvml.counters import NvmlCounter
from otel_ofu.sources.nvml.devices import Handle
from otel_ofu.sources.nvml.gpm import GpmPair

_log = logging.getLogger(__name__)

_LOST_PAUSE_S = 1.0  # starting value
_HUNG_S = 1.0  # how much longer than a wait `close` gives the driver; starting value
NAME = "nvml"


class XidEvents:
    """Counts by GPU. Made, read and closed by one thread; the waiting one only feeds a queue."""

    def __init__(
        self, nvml: ModuleType, wait_s: float, between: Callable[[], None] = lambda: None
    ) -> None:
        """`between` is called between two waits."""
        self._nvml = nvml
        self._between = between
        self._wait_s = wait_s
        self._uuids: dict[int, str] = {}
        self._counts: dict[str, Counter[str]] = {}
        self._seen: queue.SimpleQueue[tuple[int, int]] = queue.SimpleQueue()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._event_set: Any = None

    def watch(self, handle: Handle, uuid: str) -> None:
        """Counts the XIDs of one more GPU; where the driver gives no events there are no keys."""
        nvml = self._nvml
        try:
            if self._event_set is None:
                self._event_set = nvml.nvmlEventSetCreate()
            nvml.nvmlDeviceRegisterEvents(
                handle, nvml.nvmlEventTypeXidCriticalError, self._event_set
            )
        except nvml.NVMLError as error:
            _log.info("no XIDs of %s: %s", uuid, error_text(nvml, error.value))
            return
        self._uuids[_address_of(handle)] = uuid
        if self._thread is None:
            self._thread = threading.Thread(target=self._wait, name="nvml-xid", daemon=True)
            self._thread.start()

    def counts(self, uuid: str) -> Mapping[str, float]:
        """`xid:<code>` -> events so far, of the codes that were seen at all."""
        self._drain()
        return self._counts.get(uuid, {})

    def close(self) -> bool:
        """Ends the thread within `wait_s`; False if the driver hangs and keeps it."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(self._wait_s + _HUNG_S)
            if self._thread.is_alive():  # still inside the driver: its event set must outlive it
                _log.warning(
                    "the driver does not return from nvmlEventSetWait; its thread is left running"
                )
                return False
        if self._event_set is not None:
            self._free()
        return True

    def _free(self) -> None:
        event_set, self._event_set = self._event_set, None
        try:
            self._nvml.nvmlEventSetFree(event_set)
        except self._nvml.NVMLError as error:
            _log.info("nvmlEventSetFree: %s", error_text(self._nvml, error.value))

    def _wait(self) -> None:
        wait_ms = round(self._wait_s * 1e3)
        while not self._stop.is_set():
            self._between()
            try:
                event = self._nvml.nvmlEventSetWait_v2(self._event_set, wait_ms)
            except self._nvml.NVMLError as error:
                if not self._goes_on(error.value):
                    return
            else:
                self._seen.put((_address_of(event.device), int(event.eventData)))

    def _goes_on(self, code: int) -> bool:
        if code == TIMEOUT:
            return True
        if code in LOST:  # at every wait while one GPU is lost; the others still have events
            return not self._stop.wait(_LOST_PAUSE_S)
        _log.warning(
            "XIDs are no longer counted: nvmlEventSetWait: %s", error_text(self._nvml, code)
        )
        return False

    def _drain(self) -> None:
        while not self._seen.empty():
            address, code = self._seen.get()
            uuid = self._uuids.get(address)
            if uuid is None:
                _log.warning("XID %d of a device that is not watched", code)
                continue
            self._counts.setdefault(uuid, Counter())[f"xid:{code}"] += 1


def _address_of(handle: Handle) -> int:
    return ctypes.cast(handle, ctypes.c_void_p).value or 0


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
