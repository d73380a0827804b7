"""XIDs, the driver's error events: counted for each GPU since the agent started.

Enters: handles of GPUs. Leaves: counts as `xid:<code>`, and which GPUs had one of late.

The driver is waited for in a thread of its own, for an event without a waiting call is lost. When
the driver refuses to wait, that thread ends, and the set of events is made anew, at the next read
and then with growing pauses; XIDs between are lost.
"""

from __future__ import annotations

import ctypes
import logging
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

from otel_ofu.sources.nvml.client import LOST, TIMEOUT, error_text
from otel_ofu.sources.nvml.devices import Handle

_log = logging.getLogger(__name__)

_LOST_PAUSE_S = 1.0  # starting value
_HUNG_S = 1.0  # how much longer than a wait `close` gives the driver; starting value
_FIRST_PAUSE_S = 30.0  # starting value
_LONGEST_PAUSE_S = 600.0  # starting value


class XidEvents:
    """Counts by GPU. One thread makes, restarts and closes it; counts may be read from any.

    `between` is called between two waits.
    """

    def __init__(
        self, nvml: ModuleType, wait_s: float, between: Callable[[], None] = lambda: None
    ) -> None:
        self._nvml = nvml
        self._between = between
        self._wait_s = wait_s
        self._lock = threading.Lock()
        self._uuids: dict[int, str] = {}
        self._counts: dict[str, Counter[str]] = {}
        self._recent: set[str] = set()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._event_set: Any = None
        self._pause_s = _FIRST_PAUSE_S
        self._restart_s = 0.0
        self.problem = ""
        """Why no XIDs are counted now; empty while they are, and where the driver has none."""

    def watch(self, handle: Handle, uuid: str) -> None:
        """Counts the XIDs of one more GPU; where the driver gives no events there are no keys."""
        nvml = self._nvml
        try:
            event_set = self._made()
            nvml.nvmlDeviceRegisterEvents(handle, nvml.nvmlEventTypeXidCriticalError, event_set)
        except nvml.NVMLError as error:
            _log.info("no XIDs of %s: %s", uuid, error_text(nvml, error.value))
            return
        with self._lock:
            self._uuids[_address_of(handle)] = uuid
            if self._thread is None and event_set is self._event_set:
                self._thread = threading.Thread(target=self._wait, name="nvml-xid", daemon=True)
                self._thread.start()

    def counts(self, uuid: str) -> Mapping[str, float]:
        """`xid:<code>` -> events so far, of the codes that were seen at all."""
        with self._lock:
            return dict(self._counts.get(uuid, {}))

    def recent(self) -> set[str]:
        """The GPUs that had an XID since the last call."""
        with self._lock:
            recent, self._recent = self._recent, set()
        return recent

    def restart(self, monotonic_s: float) -> bool:
        """Whether all GPUs are to be watched anew: the wait has failed, and its pause is over."""
        if not self.problem or monotonic_s < self._restart_s or self._is_waiting():
            return False
        if self._event_set is not None:
            self._free()
        self._thread = None
        self._restart_s = monotonic_s + self._pause_s
        self._pause_s = min(2 * self._pause_s, _LONGEST_PAUSE_S)
        return True

    def close(self) -> bool:
        """Ends the thread within `wait_s`; False if the driver hangs and keeps it."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(self._wait_s + _HUNG_S)
            if self._is_waiting():  # still inside the driver: its event set must outlive it
                _log.warning(
                    "the driver does not return from nvmlEventSetWait; its thread is left running"
                )
                return False
        if self._event_set is not None:
            self._free()
        return True

    def _is_waiting(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def _made(self) -> Any:  # noqa: ANN401 - an opaque pointer of the untyped bindings
        with self._lock:
            if self._event_set is None:
                self._event_set = self._nvml.nvmlEventSetCreate()
            return self._event_set

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
                self._note_success()
                self._count(_address_of(event.device), int(event.eventData))

    def _goes_on(self, code: int) -> bool:
        if code == TIMEOUT:
            self._note_success()
            return True
        if code in LOST:  # at every wait while one GPU is lost; the others still have events
            return not self._stop.wait(_LOST_PAUSE_S)
        self.problem = f"not counted: nvmlEventSetWait: {error_text(self._nvml, code)}"
        return False

    def _note_success(self) -> None:
        if self.problem:
            self.problem, self._pause_s = "", _FIRST_PAUSE_S

    def _count(self, address: int, code: int) -> None:
        with self._lock:
            uuid = self._uuids.get(address)
            if uuid is not None:
                self._counts.setdefault(uuid, Counter())[f"xid:{code}"] += 1
                self._recent.add(uuid)
        if uuid is None:
            _log.warning("XID %d of a device that is not watched", code)


def _address_of(handle: Handle) -> int:
    return ctypes.cast(handle, ctypes.c_void_p).value or 0
