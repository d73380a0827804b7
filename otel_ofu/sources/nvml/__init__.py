"""NVIDIA GPUs through NVML and its GPM counters, with the bindings nvidia-ml-py."""

from otel_ofu.sources.nvml.processes import GpuProcess
from otel_ofu.sources.nvml.source import NvmlSource, open_nvml
from otel_ofu.sources.nvml.support import DeviceSupport

__all__ = ["DeviceSupport", "GpuProcess", "NvmlSource", "open_nvml"]
