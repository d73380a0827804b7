"""NVIDIA GPUs through NVML and its GPM counters, with the bindings nvidia-ml-py."""

from otel_ofu.sources.nvml.devices import GpuProcess
from otel_ofu.sources.nvml.session import DeviceSupport
from otel_ofu.sources.nvml.source import NvmlSource, open_nvml

__all__ = ["DeviceSupport", "GpuProcess", "NvmlSource", "open_nvml"]
