"""Pages to scrape: the block `receivers.gpu.scrape`, and the endpoints that it names.

Enters: what a user wrote. Leaves: `PageEndpoint`s, each with a complete URL without credentials.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated
from urllib.parse import unquote, urlsplit

import msgspec

from otel_ofu.files.settings import Duration, ParsedText, QuantityRange, Settings, Size
from otel_ofu.model.errors import ConfigError, Problem
from otel_ofu.net.settings import ServerAccess, is_this_machine

DEFAULT_TIMEOUT_S = 5.0
"""Starting value: an exporter answers within tens of milliseconds."""
DEFAULT_LIMIT_BYTES = 16 * 2**20
"""A page of 64 GPUs has about 1 MB; hpc_job repeats it for each job of a GPU."""


@dataclass(frozen=True, slots=True)
class PageEndpoint:
    """One page. Make it with `endpoint_at`; `timeout_s` is for the whole request.

    `limit_bytes` is for the page after decompression. `name` has no credentials and no query.
    """

    url: str
    name: str
    timeout_s: float = DEFAULT_TIMEOUT_S
    limit_bytes: int = DEFAULT_LIMIT_BYTES
    bearer_token_file: str = ""
    username: str = ""
    password: str = ""
    password_file: str = ""
    ca_file: str = ""

    @property
    def host(self) -> str:
        return urlsplit(self.url).hostname or ""

    @property
    def is_local(self) -> bool:
        """Whether the page speaks of this machine; a federated one may speak of any."""
        return is_this_machine(self.host) and not urlsplit(self.url).path.endswith("/federate")


def endpoint_at(
    url: str,
    *,
    timeout_s: float = DEFAULT_TIMEOUT_S,
    limit_bytes: int = DEFAULT_LIMIT_BYTES,
    **access: str,
) -> PageEndpoint:
    """The endpoint of `url`: `localhost:9400` means `http://localhost:9400/metrics`.

    `access` is any of bearer_token_file, username, password_file, ca_file. A user and password in
    the URL are taken out of it. ConfigError if the URL is invalid.
    """
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise _error(url, str(error)) from error
    unusable = any(character.isspace() or not character.isprintable() for character in url)
    if parts.scheme not in ("http", "https") or not host or unusable:
        raise _error(url, "expected http://host:port/path or https://host:port/path")
    netloc = f"[{host}]" if ":" in host else host
    if port is not None:
        netloc += f":{port}"
    plain = parts._replace(netloc=netloc, path=parts.path or "/metrics", fragment="")
    if parts.username and not access.get("username"):
        access["username"] = unquote(parts.username)
        access["password"] = unquote(parts.password or "")
    return PageEndpoint(
        plain.geturl(),
        plain._replace(query="").geturl(),
        timeout_s=timeout_s,
        limit_bytes=limit_bytes,
        **access,
    )


def _error(url: str, message: str) -> ConfigError:
    shown = url.rpartition("@")[2]  # what stands before it may be a password
    return ConfigError([Problem(f"scrape endpoint {shown!r}", 0, 0, message)])


def _parse_url(text: str) -> None:
    try:
        endpoint_at(text)
    except ConfigError as error:
        raise ValueError(error.problems[0].message) from error


class ScrapeEndpoint(ServerAccess, frozen=True, kw_only=True):
    """One page; `localhost:9400` means `http://localhost:9400/metrics`."""

    url: Annotated[str, ParsedText(_parse_url)]


class ScrapeSettings(Settings, frozen=True, kw_only=True):
    """`timeout`: for a whole page. `max_body`: of a page after decompression."""

    endpoints: list[ScrapeEndpoint] = msgspec.field(
        default_factory=lambda: [ScrapeEndpoint(url="http://localhost:9400/metrics")]
    )
    timeout: Annotated[Duration, QuantityRange(Duration(0.001), Duration(3600))] = Duration(
        DEFAULT_TIMEOUT_S
    )
    max_body: Annotated[Size, QuantityRange(Size(1024), Size(2**30))] = Size(DEFAULT_LIMIT_BYTES)


def endpoints_of(settings: ScrapeSettings) -> list[PageEndpoint]:
    return [
        endpoint_at(
            each.url,
            timeout_s=settings.timeout,
            limit_bytes=settings.max_body,
            **{name: getattr(each, name) for name in ServerAccess.__struct_fields__},
        )
        for each in settings.endpoints
    ]
