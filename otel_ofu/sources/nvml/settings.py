"""The block `receivers.gpu.nvml` of the configuration."""

from __future__ import annotations

from otel_ofu.files.settings import Settings


class NvmlSettings(Settings, frozen=True, kw_only=True):
    """`library`: path of libnvidia-ml.so.1; empty: where the system finds it."""

    library: str = ""
