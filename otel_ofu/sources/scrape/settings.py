"""What a user may say about pages to scrape: the block `receivers.gpu.scrape`."""

from __future__ import annotations

from typing import Annotated

import msgspec

from otel_ofu.files.settings import Between, Duration, Parsed, Settings, Size
from otel_ofu.model.errors import ConfigError
from otel_ofu.net.settings import ServerAccess
from otel_ofu.sources.scrape.endpoint import endpoint_at


def _parse_url(text: str) -> None:
    try:
        endpoint_at(text)
    except ConfigError as error:
        raise ValueError(error.problems[0].message) from error


class ScrapeEndpoint(ServerAccess, frozen=True, kw_only=True):
    """One page; `localhost:9400` means `http://localhost:9400/metrics`."""

    url: Annotated[str, Parsed(_parse_url)]


class ScrapeSettings(Settings, frozen=True, kw_only=True):
    """`timeout`: for a whole page. `max_body`: of a page after decompression."""

    endpoints: list[ScrapeEndpoint] = msgspec.field(
        default_factory=lambda: [ScrapeEndpoint(url="http://localhost:9400/metrics")]
    )
    timeout: Annotated[Duration, Between(Duration(0.001), Duration(3600))] = Duration(5)
    max_body: Annotated[Size, Between(Size(1024), Size(2**30))] = Size(16 * 2**20)
