"""Where and how OTLP comes in, complete and checked.

Enters: what a config says. Leaves: `ReceiverSettings`, or a ValueError that names the setting and
what is allowed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Annotated

from otel_ofu.files.settings import Between, Mistake, Settings, Size, Surroundings
from otel_ofu.net.settings import Address, ListenAddress, TokenFile, parse_address
from otel_ofu.net.tls import ServerTls
from otel_ofu.receive.intake import Bounds

__all__ = [
    "Address",
    "Limits",
    "Listener",
    "OtlpReceiverSettings",
    "ReceiverSettings",
    "Tls",
    "parse_address",
]

MIB = 2**20


_HTTP, _GRPC = Address("127.0.0.1", 4318), Address("127.0.0.1", 4317)
_COUNT = Between(1, 10**7)


class Listener(Settings, frozen=True, kw_only=True):
    """host:port to listen on; empty: off."""

    endpoint: ListenAddress = ""


class OtlpReceiverSettings(Settings, frozen=True, kw_only=True):
    """The block `receivers.otlp`. Sizes count after decompression; `max_pending_*`: of all."""

    http: Listener = Listener()
    grpc: Listener = Listener()
    tls: ServerTls = ServerTls()
    bearer_token_file: TokenFile = ""
    max_http_size: Annotated[Size, Between(Size(1), Size(2**30))] = Size(20 * MIB)
    max_grpc_size: Annotated[Size, Between(Size(1), Size(2**30))] = Size(4 * MIB)
    max_pending_size: Annotated[Size, Between(Size(1), Size(2**40))] = Size(64 * MIB)
    max_pending_requests: Annotated[int, _COUNT] = 256
    max_connections: Annotated[int, _COUNT] = 1024
    max_entities: Annotated[int, _COUNT] = 200_000

    @property
    def listens(self) -> bool:
        return bool(self.http.endpoint or self.grpc.endpoint)

    def mistakes(self, around: Surroundings) -> Iterator[Mistake]:  # noqa: ARG002 - text alone
        endpoint = self.grpc.endpoint
        if endpoint and endpoint == self.http.endpoint and not endpoint.endswith(":0"):
            yield ("grpc", "endpoint"), f"{endpoint} is that of http; choose another port"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tls:
    """PEM files; with `client_ca_file` only clients with a certificate from it are let in."""

    cert_file: str = ""
    key_file: str = ""
    client_ca_file: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What clients may take of the agent. Sizes count after decompression.

    `pending_*`: requests that are being received or wait to be decoded, all clients together; one
    more is told to come back in 1 to 3 s. A client has `head_s` for the head of a request, `body_s`
    for its body, and `idle_s` between two of them.
    """

    http_bytes: int = 20 * MIB
    grpc_bytes: int = 4 * MIB
    pending_bytes: int = 64 * MIB
    pending_requests: int = 256
    connections: int = 1024
    head_bytes: int = 16 * 1024
    head_s: float = 10.0
    body_s: float = 30.0
    idle_s: float = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiverSettings:
    """None for a protocol that is off. `token_file` holds what callers have to show as bearer."""

    http: Address | None = _HTTP
    grpc: Address | None = _GRPC
    tls: Tls = Tls()
    token_file: str = ""
    limits: Limits = Limits()
    bounds: Bounds = field(default_factory=Bounds)
