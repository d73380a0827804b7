"""Which GPUs and MIG instances there are, and who they are.

Enters: an initialised `pynvml`. Leaves: `GpuBoard`s with their handles and `Device`s.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from types import ModuleType
from typing import Any

from otel_ofu.model import Device
from otel_ofu.model.errors import SourceError, SourceUnavailable
from otel_ofu.sources.nvml.client import NOT_FOUND, SESSION_OVER, error_text
from otel_ofu.sources.nvml.device_worker import DeviceWorker, no_answer

# The bindings are untyped: an opaque pointer, and whatever a call returns.
Handle = Any
Answer = Any

_AMPERE = 7
_ARCHITECTURES = {
    2: "kepler",
    3: "maxwell",
    4: "pascal",
    5: "volta",
    6: "turing",
    _AMPERE: "ampere",
    8: "ada",
    9: "hopper",
    10: "blackwell",
    13: "rubin",
}
# Of the GPUs that have MIG. Source: CUDA C++ programming guide, arithmetic throughput (fp32).
_CORES_PER_SM_AMPERE = 64
_CORES_PER_SM_LATER = 128
_MOST_SLICES = 7  # of a GPU in MIG mode; A30 has 4, but gives its cores


@dataclass(frozen=True, slots=True)
class Instance:
    """One MIG device. `alone`: no other compute instance shares its GPU instance."""

    device: Device
    handle: Handle
    gpu_instance_id: int
    alone: bool


@dataclass(frozen=True, slots=True)
class GpuBoard:
    """One physical GPU with its MIG devices; `mig_note` is why MIG could not be read."""

    device: Device
    handle: Handle
    mig_enabled: bool
    instances: tuple[Instance, ...]
    mig_note: str = ""

    @property
    def index(self) -> int:
        """Of NVML."""
        return self.device.index or 0


@dataclass(frozen=True, slots=True)
class FoundBoards:
    """The GPUs that could be opened; for each of the others (by index) the driver's error."""

    boards: tuple[GpuBoard, ...]
    failures: Mapping[int, str]

    def without(self, failures: Mapping[int, str]) -> FoundBoards:
        """Those that failed later count as not opened."""
        boards = tuple(board for board in self.boards if board.index not in failures)
        return FoundBoards(boards, {**self.failures, **failures})

    def require_one(self, driver_version: str) -> None:
        """Raises `SourceUnavailable` when not even one GPU can be opened."""
        if self.boards:
            return
        if not self.failures:
            raise SourceUnavailable(
                f"NVIDIA driver {driver_version} is loaded but shows no GPU",
                "check nvidia-smi -L and lspci; a container needs the GPUs passed in (--gpus all)",
            )
        raise SourceUnavailable(
            f"none of {len(self.failures)} GPUs can be opened: {failures_text(self.failures)}",
            "run nvidia-smi; give this user access to /dev/nvidia*, or reset the GPUs",
        )


def find_boards(
    nvml: ModuleType, driver_version: str, worker: DeviceWorker, deadline_s: float | None = None
) -> FoundBoards:
    """Every GPU. Raises `SourceError` when the driver does not answer at all."""
    jobs = {index: partial(_opened, nvml, index, driver_version) for index in range(_count(nvml))}
    found = worker.run(jobs, deadline_s)
    failures = {index: no_answer(seconds) for index, seconds in found.silent_s.items()}
    failures |= {index: each for index, each in found.values.items() if isinstance(each, str)}
    boards = tuple(each for each in found.values.values() if isinstance(each, GpuBoard))
    return FoundBoards(boards, dict(sorted(failures.items())))


def _opened(nvml: ModuleType, index: int, driver_version: str) -> GpuBoard | str:
    """The GPU, or the driver's error."""
    try:
        return _board(nvml, index, driver_version)
    except nvml.NVMLError as error:
        _end_if_over(nvml, error.value)
        return error_text(nvml, error.value)


def failures_text(failures: Mapping[int, str]) -> str:
    """For people: `GPU 1: GPU is lost (15); GPU 4: ...`."""
    return "; ".join(f"GPU {index}: {why}" for index, why in failures.items())


def _board(nvml: ModuleType, index: int, driver_version: str) -> GpuBoard:
    handle = nvml.nvmlDeviceGetHandleByIndex(index)
    device = Device(
        uuid=nvml.nvmlDeviceGetUUID(handle),
        index=index,
        model=nvml.nvmlDeviceGetName(handle),
        pci_address=_pci_address(nvml, handle),
        serial=_optional(nvml, nvml.nvmlDeviceGetSerial, handle, ""),
        driver_version=driver_version,
        architecture=_ARCHITECTURES.get(_architecture(nvml, handle), ""),
    )
    enabled, note = _mig_mode(nvml, handle)
    if not enabled:
        return GpuBoard(device, handle, mig_enabled=False, instances=(), mig_note=note)
    try:
        instances = tuple(_instances(nvml, handle, device))
    except nvml.NVMLError as error:  # reconfigured in this moment: the next rescan finds them
        _end_if_over(nvml, error.value)
        note = f"MIG instances of {device.uuid}: {error_text(nvml, error.value)}"
        return GpuBoard(device, handle, mig_enabled=True, instances=(), mig_note=note)
    return GpuBoard(device, handle, mig_enabled=True, instances=instances)


def _pci_address(nvml: ModuleType, handle: Handle) -> str:
    info = _optional(nvml, nvml.nvmlDeviceGetPciInfo, handle, None)
    bus_id = info.busId if info else ""
    return bus_id.decode() if isinstance(bus_id, bytes) else bus_id  # older bindings: bytes


def _architecture(nvml: ModuleType, handle: Handle) -> int:
    return int(_optional(nvml, nvml.nvmlDeviceGetArchitecture, handle, 0))


def _mig_mode(nvml: ModuleType, handle: Handle) -> tuple[bool, str]:
    try:
        current, _pending = nvml.nvmlDeviceGetMigMode(handle)
    except nvml.NVMLError_NotSupported:
        return False, ""
    except nvml.NVMLError_NoPermission as error:  # seen in containers
        return False, f"nvmlDeviceGetMigMode: {error}"
    return bool(current), ""


def _instances(nvml: ModuleType, parent: Handle, device: Device) -> Iterator[Instance]:
    handles = list(_mig_handles(nvml, parent))
    owners = [int(nvml.nvmlDeviceGetGpuInstanceId(handle)) for handle in handles]
    for handle, gpu_instance_id in zip(handles, owners, strict=True):
        name = nvml.nvmlDeviceGetName(handle)
        yield Instance(
            Device(
                uuid=nvml.nvmlDeviceGetUUID(handle),
                index=device.index,
                model=device.model,
                pci_address=device.pci_address,
                parent=device.uuid,
                sm_share=_sm_share(nvml, parent, handle),
                mig_profile=name.rpartition(" MIG ")[2] if " MIG " in name else "",
                mig_instance_id=gpu_instance_id,
                serial=device.serial,
                driver_version=device.driver_version,
                architecture=device.architecture,
            ),
            handle,
            gpu_instance_id,
            alone=owners.count(gpu_instance_id) == 1,
        )


def _mig_handles(nvml: ModuleType, parent: Handle) -> Iterator[Handle]:
    for index in range(nvml.nvmlDeviceGetMaxMigDeviceCount(parent)):
        try:
            yield nvml.nvmlDeviceGetMigDeviceHandleByIndex(parent, index)
        except nvml.NVMLError as error:
            if error.value != NOT_FOUND:  # a hole: instances may go in any order
                raise


def _sm_share(nvml: ModuleType, parent: Handle, handle: Handle) -> float:
    """SMs of the instance over those of its GPU, in (0, 1]; by slices without the SMs."""
    attributes = nvml.nvmlDeviceGetAttributes_v2(handle)
    cores = int(_optional(nvml, nvml.nvmlDeviceGetNumGpuCores, parent, 0))
    ampere = _architecture(nvml, parent) == _AMPERE
    sms = cores // (_CORES_PER_SM_AMPERE if ampere else _CORES_PER_SM_LATER)
    if sms and attributes.multiprocessorCount:
        return float(min(1.0, attributes.multiprocessorCount / sms))
    return float(min(1.0, max(1, attributes.gpuInstanceSliceCount) / _MOST_SLICES))


def _optional(
    nvml: ModuleType, function: Callable[[Handle], Answer], handle: Handle, otherwise: Answer
) -> Answer:
    """What a call gives, or `otherwise` where this GPU or driver does not know it."""
    try:
        return function(handle)
    except (
        nvml.NVMLError_NotSupported,
        nvml.NVMLError_FunctionNotFound,
        nvml.NVMLError_NoPermission,
    ):
        return otherwise


def _count(nvml: ModuleType) -> int:
    try:
        return int(nvml.nvmlDeviceGetCount())
    except nvml.NVMLError as error:
        raise SourceError(f"nvmlDeviceGetCount: {error_text(nvml, error.value)}") from None


def _end_if_over(nvml: ModuleType, code: int) -> None:
    if code in SESSION_OVER:
        raise SourceError(f"NVML has to be opened again: {error_text(nvml, code)}")


_NO_INSTANCE = 0xFFFFFFFF


@dataclass(frozen=True, slots=True)
class GpuProcess:
    """A compute process on a device, or on an instance of it."""

    device_uuid: str
    pid: int
    gpu_instance_id: int | None


def processes_of(nvml: ModuleType, handle: Handle, device_uuid: str) -> Iterator[GpuProcess]:
    """Takes milliseconds under the driver's global lock. Raises the error of the bindings."""
    for process in nvml.nvmlDeviceGetComputeRunningProcesses(handle):
        instance = process.gpuInstanceId
        yield GpuProcess(
            device_uuid,
            process.pid,
            None if instance == _NO_INSTANCE else instance,
        )
