"""One opened driver: its devices and what reads them, scanned again once a minute.

Enters: an initialised `pynvml`. Leaves: the readings of all devices, and what each
of them supports.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from types import ModuleType
from typing import Any

from otel_ofu.catalog.registry import load_registry
from otel_ofu.model import Device, Gap, GapReason, Reading, Trouble, Window
from otel_ofu.model.clock import Clock
from otel_ofu.sources.nvml.client import (
    close_library,
    driver_version,
)
from otel_ofu.sources.nvml.clock_reader import DeviceClock, DriverClocks
from otel_ofu.sources.nvml.clock_sampler import ClockSampler, SamplingWorker
from otel_ofu.sources.nvml.counters import counters_of
from otel_ofu.sources.nvml.device_worker import (
    DEADLINE_S,
    OPEN_S,
    DeviceWorker,
    Wait,
    no_answer,
)
from otel_ofu.sources.nvml.devices import (
    FoundBoards,
    GpuBoard,
    Handle,
    Instance,
    find_boards,
)
from otel_ofu.sources.nvml.gpm import GpmPair, GpmRequest, gpm_refusal
from otel_ofu.sources.nvml.missing import MissingGpus, OnBus, gpus_beside
from otel_ofu.sources.nvml.read import NAME, DeviceReader
from otel_ofu.sources.nvml.support import DeviceSupport, support_of
from otel_ofu.sources.nvml.xids import XidEvents

RESCAN_S = 60.0  # starting value
VANISHED = Gap(GapReason.FAILED, "the driver does not list this GPU any more")
NO_XIDS: Mapping[str, float] = {}


@dataclass(slots=True)
class DeviceUnit:
    """A device with its reader; rebuilt when anything that identifies it has changed.

    `silent_s`: the last read (monotonic) in which it gave no answer, until it gives one again.
    """

    device: Device
    handle: Handle
    mig_enabled: bool
    reader: DeviceReader
    silent_s: float | None = None

    def is_still(self, device: Device, *, mig_enabled: bool) -> bool:
        same = self.device == device and self.mig_enabled == mig_enabled
        return same and not self.reader.lost


@dataclass(frozen=True, slots=True)
class SessionOptions:
    """`event_wait_s`: how long one wait for XIDs takes. `threaded`: False where a test samples.

    `on_bus`: the GPUs on the PCI bus beside those that are opened. `deadline_s`: how long a device
    may take to be read; `wait`: how its end is waited for.
    """

    event_wait_s: float = 0.5
    sampler: Callable[[ModuleType], ClockSampler] = ClockSampler
    threaded: bool = True
    on_bus: OnBus = gpus_beside
    deadline_s: float = DEADLINE_S
    wait: Wait = threading.Event.wait


class NvmlSession:
    """From nvmlInit to nvmlShutdown. One thread uses it; the sampler's is begun by `read`.

    Calls of devices are made in a thread of their own, which a device that hangs keeps.
    """

    def __init__(self, nvml: ModuleType, clock: Clock, options: SessionOptions) -> None:
        self._nvml = nvml
        self._clock = clock
        self._options = options
        self.sampler = options.sampler(nvml)
        self._sampling: SamplingWorker | None = None
        self._read_s: float | None = None
        self._driver_version = driver_version(nvml)
        self._worker = DeviceWorker(clock, options.deadline_s, options.wait)
        self._requests: dict[int, GpmRequest] = {}
        self._refusals: Mapping[int, str] = {}
        self._xids = XidEvents(nvml, options.event_wait_s, self._keep_sampling)
        self._units: dict[str, DeviceUnit] = {}
        self._boards: tuple[GpuBoard, ...] = ()
        self._failures: Mapping[int, str] = {}
        self._missing = MissingGpus(options.on_bus, self._driver_version)
        self._scanned_s = 0.0

    def start(self) -> None:
        """Finds the devices. Raises `SourceUnavailable`; then, too, `close` is to be called."""
        self._scanned_s = self._clock.monotonic_s()
        found = find_boards(self._nvml, self._driver_version, self._worker, OPEN_S)
        found.require_one(self._driver_version)
        self._take_over(found)

    def read(self) -> list[Reading]:
        """Raises `SourceError` when the driver has to be opened again."""
        self._rescan_if_due()
        self._watch_xids_again()
        before_s = self._read_s
        self._begin_window()
        groups = self._groups()
        found = self._worker.run({i: partial(self._read, units) for i, units in groups.items()})
        readings: list[Reading] = []
        for index, units in groups.items():
            silent_s = found.silent_s.get(index)
            readings += (
                found.values[index] if silent_s is None else self._absent(units, silent_s, before_s)
            )
        return [*readings, *self._missing.readings(self._window(before_s))]

    def _window(self, before_s: float | None) -> Window:
        """Since the read before."""
        now_s = self._clock.now_s()
        length_s = 0.0 if before_s is None else self._clock.monotonic_s() - before_s
        return Window(now_s - length_s, now_s)

    def events(self) -> list[Reading]:
        """The GPUs with an XID since the last call, and nothing but XIDs. From any thread."""
        now_s = self._clock.now_s()
        units = [self._units.get(uuid) for uuid in self._xids.recent()]
        window = Window(now_s, now_s)
        return [Reading(unit.device, window, NAME, self._xids_of(unit)) for unit in units if unit]

    def _groups(self) -> dict[int, list[DeviceUnit]]:
        """Each GPU with its MIG instances."""
        groups: dict[int, list[DeviceUnit]] = {}
        for unit in self._units.values():
            groups.setdefault(unit.device.index or 0, []).append(unit)
        return groups

    def _read(self, units: Iterable[DeviceUnit]) -> list[Reading]:
        """In the thread of the worker."""
        readings = []
        for unit in units:
            if unit.silent_s is not None:
                unit.reader.restart(unit.silent_s)
                unit.silent_s = None
            readings.append(unit.reader.read(self._clock, self._xids_of(unit)))
        return readings

    def _absent(
        self, units: Iterable[DeviceUnit], silent_s: float, before_s: float | None
    ) -> list[Reading]:
        """Gaps since the read before, in place of a GPU that does not answer."""
        window, monotonic_s = self._window(before_s), self._clock.monotonic_s()
        gap = Gap(GapReason.FAILED, no_answer(silent_s))
        readings = []
        for unit in units:
            unit.silent_s = monotonic_s
            readings.append(unit.reader.absent(gap, window, self._xids_of(unit)))
        return readings

    def _xids_of(self, unit: DeviceUnit) -> Mapping[str, float]:
        return NO_XIDS if unit.device.parent else self._xids.counts(unit.device.uuid)

    def describe(self) -> tuple[DeviceSupport, ...]:
        """A GPU that gives no answer has no GPM."""
        jobs = {board.index: partial(support_of, self._nvml, board) for board in self._boards}
        found = self._worker.run(jobs, OPEN_S)
        return tuple(
            found.values.get(board.index)
            or DeviceSupport(board.device, False, no_answer(found.silent_s[board.index]), ())  # noqa: FBT003 - the field's name says it
            for board in self._boards
        )

    def troubles(self) -> Iterator[Trouble]:
        """GPUs that the driver does not open, MIG instances that it does not show, lost XIDs."""
        for index, why in self._failures.items():
            yield Trouble(f"GPU {index}", "failed", f"cannot be opened: {why}")
        if self._xids.problem:
            yield Trouble("XIDs", "failed", self._xids.problem)
        for board in self._boards:
            if board.mig_note:
                yield Trouble(board.device.uuid, "failed", board.mig_note)

    def close(self) -> None:
        """Gives everything back; the library stays open while a hung call is inside it."""
        idle = self._xids.close()
        idle = (self._sampling is None or self._sampling.close()) and idle
        idle = self._worker.close() and idle
        for unit in self._units.values():
            if idle or unit.silent_s is None:
                unit.reader.close()
        self._units.clear()
        if idle:
            close_library(self._nvml)

    def _keep_sampling(self) -> None:
        """Called between two waits for XIDs as well: a hang must not last until the next read."""
        if self._sampling is not None:
            self._sampling.go_on()

    def _begin_window(self) -> None:
        """The strata of the sampler begin anew with each window, which is as long as the last."""
        now_s = self._clock.monotonic_s()
        self.sampler.restart(now_s, 0.0 if self._read_s is None else now_s - self._read_s)
        self._read_s = now_s
        self._keep_sampling()
        if self._sampling is not None:
            self._sampling.wake()
        elif self._options.threaded:
            self._sampling = SamplingWorker(self.sampler, self._clock, self._options.deadline_s)

    def _rescan_if_due(self) -> None:
        """Finds GPUs that came back and MIG instances that were made or removed."""
        monotonic_s = self._clock.monotonic_s()
        if monotonic_s - self._scanned_s < RESCAN_S:
            return
        self._scanned_s = monotonic_s
        self._take_over(find_boards(self._nvml, self._driver_version, self._worker))

    def _watch_xids_again(self) -> None:
        if self._xids.restart(self._clock.monotonic_s()):
            self._worker.run(
                {b.index: partial(self._xids.watch, b.handle, b.device.uuid) for b in self._boards}
            )

    def _take_over(self, found: FoundBoards) -> None:
        jobs = {board.index: partial(self._prepare, board) for board in found.boards}
        prepared = self._worker.run(jobs)
        self._refusals = prepared.values
        found = found.without({i: no_answer(s) for i, s in prepared.silent_s.items()})
        self._boards, self._failures = found.boards, found.failures
        units: dict[str, DeviceUnit] = {}
        for board in found.boards:
            units[board.device.uuid] = self._unit(board, None)
            for instance in board.instances:
                units[instance.device.uuid] = self._unit(board, instance)
        self._part_from(units)
        self._units = units
        self._find_missing()

    def _find_missing(self) -> None:
        opened = {unit.device.pci_address for unit in self._units.values()}
        groups = self._groups()
        never = {index: why for index, why in self._failures.items() if index not in groups}
        self._missing.find(self._worker, opened, never)

    def _part_from(self, units: dict[str, DeviceUnit]) -> None:
        """Closes what is not there any more, and keeps what must not go unnoticed."""
        unseen = {board.device.uuid for board in self._boards if board.mig_note}
        for uuid, unit in self._units.items():
            if units.get(uuid) is unit:
                continue
            device = unit.device
            if uuid not in units and (device.index in self._failures or device.parent in unseen):
                units[uuid] = unit  # could not be scanned: its own calls show how it is
                continue
            unit.reader.close()
            if uuid not in units:
                self.sampler.forget(uuid)
            if uuid not in units and not device.parent:
                unit.reader.lose(VANISHED)
                units[uuid] = unit

    def _prepare(self, board: GpuBoard) -> str:
        """In the thread of the worker: why it has no GPM; and its XIDs are watched."""
        known = self._units.get(board.device.uuid)
        if not (known and known.is_still(board.device, mig_enabled=board.mig_enabled)):
            self._xids.watch(board.handle, board.device.uuid)
        return gpm_refusal(self._nvml, board.handle, self._driver_version)

    def _unit(self, board: GpuBoard, instance: Instance | None) -> DeviceUnit:
        device = instance.device if instance else board.device
        known = self._units.get(device.uuid)
        if known and known.is_still(device, mig_enabled=board.mig_enabled and not instance):
            return known
        handle = instance.handle if instance else board.handle
        counters = counters_of(self._nvml, handle, mig=instance is not None)
        gpm = self._gpm(board, instance)
        clock = None if instance or not isinstance(gpm, GpmPair) else self._device_clock(board)
        reader = DeviceReader(device, counters, gpm, clock)
        return DeviceUnit(device, handle, board.mig_enabled and not instance, reader)

    def _device_clock(self, board: GpuBoard) -> DeviceClock:
        uuid = board.device.uuid
        lock = self._worker.lock(board.index)
        self.sampler.watch(uuid, board.handle, lock, self._clock.monotonic_s())
        return DeviceClock(uuid, DriverClocks(self._nvml, board.handle), self.sampler)

    def _gpm(self, board: GpuBoard, instance: Instance | None) -> GpmPair | Mapping[str, Gap]:
        request, refusal = self._request(board.index), self._refusals[board.index]
        if refusal:
            return dict.fromkeys(request.keys, Gap(GapReason.NOT_SUPPORTED, refusal))
        take, function = self._sampler(board, instance)
        return GpmPair(self._nvml, request, take, function)

    def _request(self, index: int) -> GpmRequest:
        if index not in self._requests:
            self._requests[index] = GpmRequest(self._nvml, load_registry())
        return self._requests[index]

    def _sampler(
        self, board: GpuBoard, instance: Instance | None
    ) -> tuple[Callable[[Any], object], str]:
        """A GPU instance as a whole; its compute instances singly when it has several."""
        nvml = self._nvml
        if instance and instance.alone:
            take = partial(nvml.nvmlGpmMigSampleGet, board.handle, instance.gpu_instance_id)
            return take, "nvmlGpmMigSampleGet"
        handle = instance.handle if instance else board.handle
        return partial(nvml.nvmlGpmSampleGet, handle), "nvmlGpmSampleGet"
