"""What a user may choose about the outbox: the block `outbox`."""

from __future__ import annotations

from typing import Annotated

from otel_ofu.files.settings import Duration, QuantityRange, Settings, Size


class OutboxSettings(Settings, frozen=True, kw_only=True):
    """`max_size`: most that is kept for one exporter; `max_age`: the longest."""

    max_size: Annotated[Size, QuantityRange(Size(1), Size(2**40))] = Size(256 * 2**20)
    max_age: Annotated[Duration, QuantityRange(Duration(0.001), Duration(365 * 86400))] = Duration(
        86400
    )
