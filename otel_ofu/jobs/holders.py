"""Which process holds which device: the driver's answer, as this package takes it."""

from __future__ import annotations

from typing import Protocol


class GpuHolder(Protocol):
    """A compute process on a device (`otel_ofu.sources.nvml.GpuProcess`); pids are the host's."""

    @property
    def device_uuid(self) -> str: ...

    @property
    def pid(self) -> int: ...

    @property
    def gpu_instance_id(self) -> int | None: ...
