"""What a user may say about rules: the block `rules`."""

from __future__ import annotations

from typing import Annotated

from otel_ofu.files.settings import Duration, ExistingFile, ParsedText, QuantityRange, Settings
from otel_ofu.net.settings import ServerAccess, parse_url

_QUERY_PATH = "/api/v1/query"


def _parse_base_url(text: str) -> None:
    parse_url(text)
    if "?" in text or "#" in text:
        raise ValueError(f"no ? or # in it; it is the part before {_QUERY_PATH}")
    if text.rstrip("/").endswith(_QUERY_PATH):
        raise ValueError(f"it is the part before {_QUERY_PATH}")


class ServerSettings(ServerAccess, frozen=True, kw_only=True):
    """A server with the HTTP API of Prometheus: Prometheus, Mimir, Thanos, VictoriaMetrics.

    `url`: what stands before `/api/v1/query`, with the path prefix that Mimir (`/prometheus`) or a
    proxy has. `tenant` goes out as X-Scope-OrgID. `timeout`: for a whole query.
    """

    url: Annotated[str, ParsedText(_parse_base_url)] = ""
    tenant: str = ""
    timeout: Annotated[Duration, QuantityRange(Duration(0.001), Duration(3600))] = Duration(10)


class EngineSettings(Settings, frozen=True, kw_only=True):
    """Empty `prometheus.url`: rules are evaluated here, over the store."""

    prometheus: ServerSettings = ServerSettings()


class RulesSettings(Settings, frozen=True, kw_only=True):
    """`paths`: files and folders of them; empty: the shipped rules, `causes_file` likewise."""

    enabled: bool = True
    paths: list[Annotated[str, ExistingFile(or_folder=True)]] = []
    causes_file: Annotated[str, ExistingFile()] = ""
    engine: EngineSettings = EngineSettings()
