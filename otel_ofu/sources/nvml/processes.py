"""The compute processes on each GPU, beside whatever source reads its counters.

Enters: the path of the driver's library. Leaves: process ids by device. It watches nothing and
samples nothing: the driver is initialised once for the process, however often it is opened.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from functools import partial
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
from otel_ofu.sources.nvml.device_worker import OPEN_S, DeviceWorker
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
    """Opens the driver at the first use, and again after `close`. One thread at a time uses it.

    A GPU that gives no answer has no processes.
    """

    def __init__(self, library: str, clock: Clock) -> None:
        self._worker: DeviceWorker | None = None
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
        worker, self._worker = self._worker, None
        self._boards, self._listed = (), ()
        idle = worker is None or worker.close()
        if nvml is not None and idle:
            close_library(nvml)

    def _opened(self) -> ModuleType:
        if self._nvml is None:
            self._nvml = open_library(self._library)
            self._scan_at_s = 0.0
        return self._nvml

    def _devices(self) -> DeviceWorker:
        if self._worker is None:
            self._worker = DeviceWorker(self._clock)
        return self._worker

    def _scan_if_due(self, nvml: ModuleType, now_s: float) -> None:
        if self._boards and now_s < self._scan_at_s:
            return
        self._scan_at_s = now_s + RESCAN_S
        self._boards = find_boards(nvml, driver_version(nvml), self._devices(), OPEN_S).boards

    def _on_all(self, nvml: ModuleType) -> Iterator[GpuProcess]:
        jobs = {board.index: partial(self._on_board, nvml, board) for board in self._boards}
        for found in self._devices().run(jobs).values.values():
            yield from found

    def _on_board(self, nvml: ModuleType, board: GpuBoard) -> list[GpuProcess]:
        found = [] if board.mig_enabled else self._on(nvml, board.handle, board.device.uuid)
        for instance in board.instances:
            found += self._on(nvml, instance.handle, instance.device.uuid)
        return found

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
