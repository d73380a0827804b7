"""Where an engine listens: enters an address, leaves a checked endpoint and whether it is open.

Imported in the child process too, hence without the settings and what they need.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from otel_ofu.model.errors import SourceUnavailable

DEFAULT_PORT = 5555
REACH_S = 2.0  # starting value

_ALLOWED = "allowed: host, host:port, unix:///path/to/socket"


@dataclass(frozen=True, slots=True)
class EngineEndpoint:
    """Where to connect; `address` is `host:port` or the path of a socket, empty when embedded."""

    kind: Literal["tcp", "unix", "embedded"]
    address: str = ""

    def __str__(self) -> str:
        prefix = {"tcp": "", "unix": "unix://", "embedded": "embedded engine"}[self.kind]
        return prefix + self.address

    @property
    def remote_host(self) -> str:
        """The other machine that the engine is on; empty for an engine of this one."""
        host = self.address.rpartition(":")[0].strip("[]") if self.kind == "tcp" else ""
        from otel_ofu.net.settings import is_this_machine  # noqa: PLC0415 - not in the child

        return "" if not host or is_this_machine(host) else host


def parse_endpoint(text: str, *, embedded: bool) -> EngineEndpoint:
    """The endpoint of an address; empty is this machine. SourceUnavailable if it makes no sense."""
    if embedded:
        if text:
            raise _unusable(text, "an embedded engine has no address; set one of the two")
        return EngineEndpoint("embedded")
    if text.startswith(("unix:", "/")):
        path = text.removeprefix("unix://")
        if not path.startswith("/") or path == "/":
            raise _unusable(text, f"the path of the socket must be absolute; {_ALLOWED}")
        return EngineEndpoint("unix", path)
    return EngineEndpoint("tcp", _host_and_port(text or "127.0.0.1"))


def _host_and_port(text: str) -> str:
    if "://" in text or "/" in text or any(c.isspace() for c in text):
        raise _unusable(text, _ALLOWED)
    host, colon, port = text.rpartition(":")
    if not colon or text.endswith("]"):
        return f"{text}:{DEFAULT_PORT}"
    bare_ipv6 = ":" in host and not host.endswith("]")
    if not host or bare_ipv6:
        raise _unusable(text, f"write an IPv6 address as [::1]:{DEFAULT_PORT}; {_ALLOWED}")
    if not (port.isascii() and port.isdigit() and 0 < int(port) < 1 << 16):
        raise _unusable(text, f"the port must be 1 to 65535; {_ALLOWED}")
    return text


def refusal(where: EngineEndpoint, timeout_s: float = REACH_S) -> str:
    """Why nobody can be reached there, in the words of the system; empty if somebody can.

    The vendor's client needs seconds to find out, since it tries again and again.
    """
    if where.kind == "embedded":
        return ""
    import socket  # noqa: PLC0415 - half a megabyte that an embedded engine does without

    try:
        if where.kind == "unix":
            with socket.socket(socket.AF_UNIX) as one:
                one.settimeout(timeout_s)
                one.connect(where.address)
        else:
            host, _, port = where.address.rpartition(":")
            socket.create_connection((host.strip("[]"), int(port)), timeout_s).close()
    except OSError as error:
        return (error.strerror or str(error)).lower()
    return ""


def _unusable(address: str, why: str) -> SourceUnavailable:
    return SourceUnavailable(f"dcgm address {address!r}: {why}")
