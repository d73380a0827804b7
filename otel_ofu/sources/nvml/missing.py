"""GPUs that are on the PCI bus and could not be opened: lost before the agent started.

Enters: what is on the bus beside the opened GPUs, the driver's errors by index. Leaves: a reading
of each that has nothing but gaps. NVML knows no UUID of such a GPU. Where the kernel driver knows
none either, its PCI address is its identity until it is opened.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from otel_ofu.catalog.registry import Registry, load_registry
from otel_ofu.files.gpus import BusGpu, GpuPaths, gpus_on_bus, nvml_address
from otel_ofu.model import Device, Gap, GapReason, Reading, Window
from otel_ofu.sources.nvml.clock_reader import KEYS as CLOCK_KEYS
from otel_ofu.sources.nvml.counters import ROWS
from otel_ofu.sources.nvml.device_worker import DeviceWorker
from otel_ofu.sources.nvml.devices import failures_text
from otel_ofu.sources.nvml.read import NAME

BUS = -1
"""In place of the index of a device: what the kernel knows of all, for that may hang as well."""
_NOT_LISTED = "on the PCI bus, and not listed by the driver; see dmesg"


@dataclass(frozen=True, slots=True)
class MissingGpu:
    """A GPU that gives nothing, and why."""

    device: Device
    gap: Gap


OnBus = Callable[[Collection[str]], Sequence[BusGpu]]
"""The GPUs on the bus, but for those at some addresses."""


def gpus_beside(opened: Collection[str]) -> Sequence[BusGpu]:
    """Those of this machine; none where the kernel shows no bus."""
    try:
        return gpus_on_bus(GpuPaths(), opened) or ()
    except OSError:
        return ()


class MissingGpus:
    """As of the last scan."""

    def __init__(self, on_bus: OnBus, driver_version: str) -> None:
        self._on_bus = on_bus
        self._driver_version = driver_version
        self._keys = every_key(load_registry())
        self._found: Sequence[MissingGpu] = ()

    def find(
        self, worker: DeviceWorker, opened: Collection[str], failures: Mapping[int, str]
    ) -> None:
        """`opened`: addresses; a GPU without one could be any of those on the bus."""
        if not all(opened):
            return
        addresses = {nvml_address(address) for address in opened}
        bus = worker.run({BUS: partial(self._on_bus, addresses)}).values.get(BUS)
        if bus is not None:
            self._found = missing_gpus(bus, failures, self._driver_version)

    def readings(self, window: Window) -> list[Reading]:
        return [
            Reading(gpu.device, window, NAME, {}, dict.fromkeys(self._keys, gpu.gap))
            for gpu in self._found
        ]


def missing_gpus(
    bus: Sequence[BusGpu], failures: Mapping[int, str], driver_version: str
) -> tuple[MissingGpu, ...]:
    """`bus`: those that are not opened. `failures`: the driver's words for each index.

    NVML lists GPUs in the order of their addresses, so equally many are the same ones.
    """
    if len(failures) == len(bus):
        rows = sorted(failures.items())
        return tuple(
            _missing(gpu, driver_version, f"cannot be opened: {why}", index)
            for gpu, (index, why) in zip(bus, rows, strict=True)
        )
    words = _NOT_LISTED
    if failures:
        words = f"not listed, or cannot be opened: {failures_text(failures)}"
    return tuple(_missing(gpu, driver_version, words) for gpu in bus)


def every_key(registry: Registry) -> tuple[str, ...]:
    """What is read of a GPU."""
    plain = (key for row in ROWS for key in row.keys)
    gpm = (key for key, metric in registry.metrics.items() if metric.gpm)
    return (*plain, *gpm, *CLOCK_KEYS)


def _missing(gpu: BusGpu, driver_version: str, why: str, index: int | None = None) -> MissingGpu:
    device = Device(
        uuid=gpu.uuid or gpu.address,
        index=index,
        model=gpu.model,
        pci_address=gpu.address,
        driver_version=driver_version,
    )
    return MissingGpu(device, Gap(GapReason.FAILED, why))
