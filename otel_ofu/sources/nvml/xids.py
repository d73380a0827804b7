"""XIDs, the driver's error events, counted for each GPU since the agent started.

Enters: handles of GPUs. Leaves: `xid:<code>` keys with how often each code was seen. The driver is
waited for in a thread of its own, for an event that nobody waits for is lost.
"""

from __future__ import annotations

import ctypes
import logging
import queue
import threading
from collections import Counter
from collections.abc import Mapping
from types import ModuleType
from typing import Any

from otel_ofu.sources.nvml.devices import Handle
from otel_ofu.sources.nvml.statuses import LOST, TIMEOUT, words

_log = logging.getLogger(__name__)

_LOST_PAUSE_S = 1.0
_HUNG_S = 1.0  # how much longer than a wait `close` gives the driver


class XidEvents:
    """Counts by GPU. Made, read and closed by one thread; the waiting one only feeds a queue."""

    def __init__(self, nvml: ModuleType, wait_s: float) -> None:
        self._nvml = nvml
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
            _log.info("no XIDs of %s: %s", uuid, words(nvml, error.value))
            return
        self._uuids[_address(handle)] = uuid
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
                _log.warning("the driver does not return from nvmlEventSetWait; left as it is")
                return False
        if self._event_set is not None:
            self._free()
        return True

    def _free(self) -> None:
        event_set, self._event_set = self._event_set, None
        try:
            self._nvml.nvmlEventSetFree(event_set)
        except self._nvml.NVMLError as error:
            _log.info("nvmlEventSetFree: %s", words(self._nvml, error.value))

    def _wait(self) -> None:
        wait_ms = round(self._wait_s * 1e3)
        while not self._stop.is_set():
            try:
                event = self._nvml.nvmlEventSetWait_v2(self._event_set, wait_ms)
            except self._nvml.NVMLError as error:
                if not self._goes_on(error.value):
                    return
            else:
                self._seen.put((_address(event.device), int(event.eventData)))

    def _goes_on(self, code: int) -> bool:
        if code == TIMEOUT:
            return True
        if code in LOST:  # said at every wait while one GPU is lost; the others still have events
            return not self._stop.wait(_LOST_PAUSE_S)
        _log.warning("XIDs are no longer counted: nvmlEventSetWait: %s", words(self._nvml, code))
        return False

    def _drain(self) -> None:
        while not self._seen.empty():
            address, code = self._seen.get()
            uuid = self._uuids.get(address)
            if uuid is None:
                _log.warning("XID %d of a device that is not watched", code)
                continue
            self._counts.setdefault(uuid, Counter())[f"xid:{code}"] += 1


def _address(handle: Handle) -> int:
    return ctypes.cast(handle, ctypes.c_void_p).value or 0
