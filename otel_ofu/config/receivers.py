"""The block `receivers`: which source reads the GPUs, and what comes in over OTLP."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal

import msgspec

from otel_ofu.derive.settings import parse_reference_clock
from otel_ofu.files.settings import (
    CheckContext,
    Duration,
    ExistingFile,
    Mistake,
    ParsedText,
    QuantityRange,
    Settings,
    tried,
)
from otel_ofu.model.clock import SystemClock
from otel_ofu.receive.settings import OtlpReceiverSettings
from otel_ofu.sources import CHOICES, plugin_source, source_factory
from otel_ofu.sources.dcgm.settings import DcgmSettings
from otel_ofu.sources.demo.settings import DemoSettings
from otel_ofu.sources.nvml import NvmlSettings
from otel_ofu.sources.scrape.settings import ScrapeSettings

SourceName = Annotated[str, msgspec.Meta(extra={"public": True})]
"""`auto`, `none`, a built-in source or one of an installed package; never a secret."""
Precision = Literal["", "fp64", "tf32", "bf16", "fp16", "fp8", "fp4", "int8", "mixed"]


class Gpu(Settings, frozen=True, kw_only=True):
    """The GPUs of this machine. GPM and DCGM give wrong values at intervals below 100 ms.

    `plugins`: the settings of sources of other packages, by name.
    """

    source: SourceName = "auto"
    interval: Annotated[Duration, QuantityRange(Duration(0.1), Duration(3600))] = Duration(10)
    reference_clock: Annotated[str, ParsedText(parse_reference_clock)] = "sku_table"
    precision: Precision = ""
    skus_file: Annotated[str, ExistingFile()] = ""
    serial_numbers: bool = False
    dcgm: DcgmSettings = DcgmSettings()
    nvml: NvmlSettings = NvmlSettings()
    scrape: ScrapeSettings = msgspec.field(default_factory=ScrapeSettings)
    demo: DemoSettings = DemoSettings()
    plugins: dict[str, dict[str, Any]] = {}

    def mistakes(self, around: CheckContext) -> Iterator[Mistake]:  # noqa: ARG002 - of plugins
        if self.source in CHOICES:
            return
        try:
            source_factory(self.source)
        except ValueError as error:
            yield ("source",), str(error)
            return
        block = self.plugins.get(self.source, {})
        steps = ("plugins", self.source) if block else ("source",)
        yield from tried(
            lambda: plugin_source(self.source, block, self.interval, SystemClock()), steps
        )


class Receivers(Settings, frozen=True, kw_only=True):
    """Where numbers come from."""

    gpu: Gpu = msgspec.field(default_factory=Gpu)
    otlp: OtlpReceiverSettings = OtlpReceiverSettings()
