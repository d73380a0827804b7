"""Where and how OTLP comes in, complete and checked.

Enters: what a config says. Leaves: `ReceiverSettings`, or a ValueError that names the setting and
what is allowed.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from otel_ofu.receive.intake import Bounds

MIB = 2**20


@dataclass(frozen=True, slots=True)
class Address:
    """Where to listen; port 0 takes a free one."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


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

    http: Address | None = Address("127.0.0.1", 4318)
    grpc: Address | None = Address("127.0.0.1", 4317)
    tls: Tls = Tls()
    token_file: str = ""
    limits: Limits = Limits()
    bounds: Bounds = field(default_factory=Bounds)


def parse_address(text: str) -> Address:
    """`127.0.0.1:4318`, `[::]:4317`. ValueError says what is allowed."""
    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]") if host.startswith("[") else host
    proper = colon and host and port.isascii() and port.isdigit() and int(port) < 65536  # noqa: PLR2004 - ports
    if not proper or (":" in host and not text.startswith("[")):
        raise ValueError(f"{text!r} is no address; allowed: host:port, such as 127.0.0.1:4318")
    return Address(host, int(port))
