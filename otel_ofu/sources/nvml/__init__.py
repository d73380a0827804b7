"""NVIDIA GPUs through NVML and its GPM counters, with the bindings nvidia-ml-py."""

from otel_ofu.sources.nvml.device_worker import DEADLINE_S
from otel_ofu.sources.nvml.devices import GpuProcess
from otel_ofu.sources.nvml.processes import NvmlProcesses
from otel_ofu.sources.nvml.session import SessionOptions
from otel_ofu.sources.nvml.settings import NvmlSettings
from otel_ofu.sources.nvml.source import NvmlSource
from otel_ofu.sources.nvml.support import DeviceSupport

__all__ = [
    "DEADLINE_S",
    "DeviceSupport",
    "GpuProcess",
    "NvmlProcesses",
    "NvmlSettings",
    "NvmlSource",
    "SessionOptions",
]
