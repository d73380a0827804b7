"""Opens the connection of one HTTP exchange: address, proxy, TLS; all within one deadline.

Enters: where to, the environment's proxies (http_proxy, https_proxy, all_proxy, no_proxy; in lower
case before upper case, as curl and Go read them), and a `SocketDeadline`. Leaves: an
`http.client.HTTPConnection` with an open socket, or an OSError.
"""

from __future__ import annotations

import errno
import http.client
import socket
import ssl
import threading
import time
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit


@contextmanager
def deadline(left_s: float, end: Callable[[], None]) -> Iterator[threading.Event]:
    """Calls `end` on another thread after `left_s` seconds; the event is set when it was called.

    A server that trickles restarts every timeout of a socket; `cut` for its socket ends the wait.
    """
    passed = threading.Event()

    def act() -> None:
        passed.set()
        end()

    timer = threading.Timer(left_s, act)
    timer.daemon = True
    timer.start()
    try:
        yield passed
    finally:
        timer.cancel()
        timer.join()


def cut(sock: socket.socket) -> None:
    """Shuts a socket that another thread may be reading from or writing to; it reads the end."""
    with suppress(OSError):  # closed already: the wait is over as well
        # Not sock.shutdown: a TLS socket would drop its state under the other thread.
        socket.socket.shutdown(sock, socket.SHUT_RDWR)


def proxy_for(environ: Mapping[str, str], scheme: str, host: str, port: int) -> str:
    """`http://[user:password@]host[:port]`, or empty for a direct connection."""
    url = _variable(environ, f"{scheme}_proxy") or _variable(environ, "all_proxy")
    if not url or _is_excepted(_variable(environ, "no_proxy"), host.lower(), port):
        return ""
    return url if "://" in url else f"http://{url}"


def _variable(environ: Mapping[str, str], name: str) -> str:
    return (environ.get(name) or environ.get(name.upper()) or "").strip()


def _is_excepted(no_proxy: str, host: str, port: int) -> bool:
    return any(_matches(entry.strip().lower(), host, port) for entry in no_proxy.split(","))


def _matches(entry: str, host: str, port: int) -> bool:
    """`*`, a name with all names below it, an address, or a network such as 10.0.0.0/8."""
    name = entry.lstrip(".")
    if not name:
        return False
    if "/" in name:
        return _is_within(name, host)
    return name in ("*", host, f"{host}:{port}") or host.endswith(f".{name}")


def _is_within(network: str, host: str) -> bool:
    from ipaddress import ip_address, ip_network  # noqa: PLC0415 - 5 ms for few environments

    with suppress(ValueError):  # a host name, or no network
        return ip_address(host) in ip_network(network, strict=False)
    return False


@dataclass(frozen=True, slots=True)
class ConnectionTarget:
    """Where a connection goes, and the proxy on the way (a URL, or empty)."""

    secure: bool
    host: str
    port: int
    proxy: str = ""

    @property
    def proxy_headers(self) -> dict[str, str]:
        """The proxy's own credentials."""
        parts = urlsplit(self.proxy)
        if not parts.username:
            return {}
        pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}".encode()
        return {"Proxy-Authorization": f"Basic {b64encode(pair).decode('ascii')}"}


class SocketDeadline:
    """The socket that an exchange uses now, and until when: it is shut when the time is up."""

    def __init__(self, timeout_s: float) -> None:
        self._until_s = time.monotonic() + timeout_s
        self._sock: socket.socket | None = None

    def left_s(self) -> float:
        """TimeoutError if nothing is left."""
        left_s = self._until_s - time.monotonic()
        if left_s <= 0:
            raise TimeoutError
        return left_s

    def use(self, sock: socket.socket) -> None:
        """TimeoutError if the time was up before there was this socket to shut."""
        self._sock = sock
        sock.settimeout(self.left_s())

    def shut(self) -> None:
        if self._sock is not None:
            cut(self._sock)

    def close(self) -> None:
        if self._sock is not None:
            self._sock.close()


def open_connection(
    origin: ConnectionTarget, context: ssl.SSLContext | None, cutter: SocketDeadline
) -> http.client.HTTPConnection:
    """`context` for an origin with TLS. The look-up of the name has the bounds of the system."""
    if origin.proxy:
        sock = _connected(*_proxy_address(origin.proxy), cutter)
        if origin.secure:
            _open_tunnel(sock, origin)
    else:
        sock = _connected(origin.host, origin.port, cutter)
    if context is not None:
        sock = context.wrap_socket(sock, server_hostname=origin.host, do_handshake_on_connect=False)
        cutter.use(sock)  # before the handshake, which may trickle as well
        sock.do_handshake()
    connection = http.client.HTTPConnection(origin.host, origin.port)
    connection.default_port = 443 if origin.secure else 80  # without it, Host names the port
    connection.sock = sock
    return connection


def _connected(host: str, port: int, cutter: SocketDeadline) -> socket.socket:
    """Tries each address of the host."""
    problem: OSError | None = None
    for family, kind, protocol, _, address in socket.getaddrinfo(
        host, port, type=socket.SOCK_STREAM
    ):
        sock = socket.socket(family, kind, protocol)
        try:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            cutter.use(sock)
            sock.connect(address)
        except OSError as error:
            sock.close()
            problem = error
        else:
            return sock
    raise problem or OSError("the host has no address")


def _proxy_address(proxy: str) -> tuple[str, int]:
    parts = urlsplit(proxy)
    if parts.scheme != "http" or not parts.hostname:
        shown = f"{parts.scheme}://{parts.hostname or ''}"
        why = f"proxy {shown}: not supported; allowed: http://host:port"
        raise OSError(errno.EPROTONOSUPPORT, why)
    return parts.hostname, parts.port or 80


def _open_tunnel(sock: socket.socket, origin: ConnectionTarget) -> None:
    host = f"[{origin.host}]" if ":" in origin.host else origin.host
    target = f"{host.encode('idna').decode() if not host.isascii() else host}:{origin.port}"
    lines = [f"CONNECT {target} HTTP/1.1", f"Host: {target}"]
    lines += [f"{name}: {value}" for name, value in origin.proxy_headers.items()]
    sock.sendall("\r\n".join([*lines, "", ""]).encode("ascii"))
    answer = http.client.HTTPResponse(sock, method="CONNECT")
    try:
        answer.begin()
        if answer.status != http.client.OK:
            why = f"the proxy answered {answer.status} {answer.reason}".rstrip()
            raise OSError(errno.EPROTO, why)
    finally:
        answer.close()
