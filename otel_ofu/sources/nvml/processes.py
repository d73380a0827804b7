"""Which processes hold which GPU.

Enters: a device handle. Leaves: `GpuProcess`es; process ids are those of the host's namespace.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from types import ModuleType

from otel_ofu.sources.nvml.devices import Handle

_NO_INSTANCE = 0xFFFFFFFF


@dataclass(frozen=True, slots=True)
class GpuProcess:
    """A compute process on a device; `used_bytes` is None where the driver does not say."""

    device_uuid: str
    pid: int
    used_bytes: int | None
    gpu_instance_id: int | None


def processes_of(nvml: ModuleType, handle: Handle, device_uuid: str) -> Iterator[GpuProcess]:
    """Takes milliseconds under the driver's global lock. Raises the error of the bindings."""
    for process in nvml.nvmlDeviceGetComputeRunningProcesses(handle):
        instance = process.gpuInstanceId
        yield GpuProcess(
            device_uuid,
            process.pid,
            process.usedGpuMemory,
            None if instance == _NO_INSTANCE else instance,
        )
