"""What a user may set about what jobs report: the block `mfu`."""

from __future__ import annotations

from typing import Annotated

from otel_ofu.files.settings import Between, Duration, Settings
from otel_ofu.mfu.logs.settings import LogSettings
from otel_ofu.mfu.names import Quantity


class MfuSettings(Settings, frozen=True, kw_only=True):
    """`metrics`: names of metrics that jobs send, and what each is."""

    metrics: dict[str, Quantity] = {}
    interval: Annotated[Duration, Between(Duration(0.1), Duration(3600))] = Duration(1)
    logs: list[LogSettings] = []
