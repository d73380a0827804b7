"""The compute processes on each GPU, beside whatever source reads its counters.

Enters: the path of the driver's library. Leaves: process ids by device. It watches nothing and
samples nothing: the driver is initialised once for the process, however often it is opened.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from types import ModuleType

from otel_ofu.model.clock import Clock
from otel_ofu.model.log_once import LogOnce
from otel_ofu.sources.nvml.client import (
    DeviceLostError,
    close_library,
    driver_version,
    gap_of,
    open_library,
)
from otel_ofu.sources.nvml.devices import (
    GpuBoard,
    GpuProcess,
    Handle,
    find_boards,
    processes_of,
)

RESCAN_S = 60.0  # starting value, as of the session that reads
LIST_S = 10.0
"""A list takes milliseconds a GPU under the driver's global lock. Starting value."""


class NvmlProcesses:
    """Opens the driver at the first use, and again after `close`. One thread at a time uses it."""

    def __init__(self, library: str, clock: Clock) -> None:
        self._library = library
        self._clock = clock
        self._nvml: ModuleType | None = None
        self._boards: tuple[GpuBoard, ...] = ()
        self._scan_at_s = 0.0
        self._list_at_s = 0.0
        self._listed: tuple[GpuProcess, ...] = ()
        self._once = LogOnce(logging.getLogger(__name__), level=logging.INFO)

    def processes(self) -> tuple[GpuProcess, ...]:
        """Of every GPU, and in MIG mode of every instance; at most `LIST_S` old.

        A device that refuses has none. Raises SourceUnavailable, or SourceError when the driver has
        to be opened again.
        """
        now_s = self._clock.monotonic_s()
        if self._nvml is None or now_s >= self._list_at_s:
            nvml = self._opened()
            self._scan_if_due(nvml, now_s)
            self._listed = tuple(self._on_all(nvml))
            self._list_at_s = now_s + LIST_S
        return self._listed

    def close(self) -> None:
        nvml, self._nvml = self._nvml, None
        self._boards, self._listed = (), ()
        if nvml is not None:
            close_library(nvml)

    def _opened(self) -> ModuleType:
        if self._nvml is None:
            self._nvml = open_library(self._library)
            self._scan_at_s = 0.0
        return self._nvml

    def _scan_if_due(self, nvml: ModuleType, now_s: float) -> None:
        if self._boards and now_s < self._scan_at_s:
            return
        self._scan_at_s = now_s + RESCAN_S
        self._boards = find_boards(nvml, driver_version(nvml)).boards

    def _on_all(self, nvml: ModuleType) -> Iterator[GpuProcess]:
        for board in self._boards:
            if not board.mig_enabled:
                yield from self._on(nvml, board.handle, board.device.uuid)
            for instance in board.instances:
                yield from self._on(nvml, instance.handle, instance.device.uuid)

    def _on(self, nvml: ModuleType, handle: Handle, uuid: str) -> list[GpuProcess]:
        try:
            return list(processes_of(nvml, handle, uuid))
        except nvml.NVMLError as error:
            self._once.log(f"no processes of {uuid}: {_why(nvml, error.value)}")
            return []


def _why(nvml: ModuleType, code: int) -> str:
    """Raises SourceError when the session is over."""
    try:
        return gap_of(nvml, code, "nvmlDeviceGetComputeRunningProcesses").detail
    except DeviceLostError as lost:
        return lost.gap.detail
