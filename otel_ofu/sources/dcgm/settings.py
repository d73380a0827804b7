"""What a user can say about DCGM: enters text, leaves a checked endpoint and whether it is open."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from otel_ofu.files.settings import CheckContext, Mistake, Settings
from otel_ofu.model.errors import SourceUnavailable
from otel_ofu.net.this_machine import is_this_machine

DEFAULT_PORT = 5555
REACH_S = 2.0  # starting value
MIN_INTERVAL_S = 0.1
"""Shorter profiling intervals are accepted by the engine and give wrong values (DCGM issue 310)."""

_ALLOWED = "allowed: host, host:port, unix:///path/to/socket"


class DcgmSettings(Settings, frozen=True, kw_only=True):
    """Where the engine is and how to find its client.

    `address`: `host`, `host:port` or `unix:///path`; empty is the engine of this machine.
    `embedded` runs an engine inside the child process instead. `bindings_path` and `library_path`
    are folders; empty means the places where the packages of DCGM install. Without `profiling`
    no field of 1001 and above is asked for, so OFU has no value.
    """

    address: str = ""
    embedded: bool = False
    bindings_path: str = ""
    library_path: str = ""
    profiling: bool = True

    def mistakes(self, around: CheckContext) -> Iterator[Mistake]:  # noqa: ARG002 - text alone
        try:
            endpoint(self)
        except SourceUnavailable as error:
            yield ("address",), str(error)


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
        return "" if not host or is_this_machine(host) else host


def endpoint(settings: DcgmSettings) -> EngineEndpoint:
    """The endpoint that the settings name. SourceUnavailable if they make no sense."""
    text = settings.address
    if settings.embedded:
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
