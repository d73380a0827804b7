"""The block `receivers`: which source reads the GPUs, and what comes in over OTLP."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from otel_ofu.derive.settings import parse_reference_clock
from otel_ofu.files.settings import Between, Duration, Parsed, Settings
from otel_ofu.receive.settings import OtlpReceiverSettings
from otel_ofu.sources.dcgm.settings import DcgmSettings
from otel_ofu.sources.demo.settings import DemoSettings
from otel_ofu.sources.nvml.settings import NvmlSettings
from otel_ofu.sources.scrape.settings import ScrapeSettings

SourceName = Literal["auto", "dcgm", "nvml", "scrape", "demo", "none"]
Precision = Literal["", "fp64", "tf32", "bf16", "fp16", "fp8", "fp4", "int8", "mixed"]


class Gpu(Settings, frozen=True, kw_only=True):
    """The GPUs of this machine. GPM and DCGM give wrong values at intervals below 100 ms."""

    source: SourceName = "auto"
    interval: Annotated[Duration, Between(Duration(0.1), Duration(3600))] = Duration(10)
    reference_clock: Annotated[str, Parsed(parse_reference_clock)] = "sku_table"
    precision: Precision = ""
    skus_file: str = ""
    serial_numbers: bool = False
    dcgm: DcgmSettings = DcgmSettings()
    nvml: NvmlSettings = NvmlSettings()
    scrape: ScrapeSettings = msgspec.field(default_factory=ScrapeSettings)
    demo: DemoSettings = DemoSettings()


class Receivers(Settings, frozen=True, kw_only=True):
    """Where numbers come from."""

    gpu: Gpu = msgspec.field(default_factory=Gpu)
    otlp: OtlpReceiverSettings = OtlpReceiverSettings()
