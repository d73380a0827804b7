"""Sockets that listen: on an address of TCP, or at a path of the file system.

Enters: where. Leaves: sockets that listen, or a ValueError in one line.
"""

from __future__ import annotations

import errno
import os
import socket
import stat
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from otel_ofu.net.settings import Address

# Starting value; the kernel's own limit is net.core.somaxconn, 4096.
_BACKLOG = 1024


@dataclass(frozen=True, slots=True)
class UnixAddress:
    """A socket that its owner alone may connect to."""

    path: str

    def __str__(self) -> str:
        return f"unix:{self.path}"


SocketAddress = Address | UnixAddress


def listen(address: SocketAddress) -> list[socket.socket]:
    """One socket for each address that a name stands for. ValueError if it cannot listen."""
    try:
        if isinstance(address, UnixAddress):
            return [_listen_unix(address.path)]
        return _listen_tcp(address)
    except OSError as error:
        what = "choose another port" if isinstance(address, Address) else "choose another path"
        raise ValueError(
            f"cannot listen on {address}: {error.strerror or error}; {what}"
        ) from error


def bound_to(address: SocketAddress, listener: socket.socket) -> SocketAddress:
    """The address with the port that was taken."""
    if isinstance(address, UnixAddress):
        return address
    host, port = listener.getsockname()[:2]
    return Address(str(host), int(port))


def stop_listening(address: SocketAddress, listeners: list[socket.socket]) -> None:
    """Closes the sockets and removes the file of one."""
    for listener in listeners:
        listener.close()
    if isinstance(address, UnixAddress) and listeners:
        with suppress(OSError):  # removed by somebody else
            Path(address.path).unlink()


def _listen_tcp(address: Address) -> list[socket.socket]:
    found = socket.getaddrinfo(
        address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )
    listeners: list[socket.socket] = []
    port = address.port
    try:
        for family, _, _, _, where in dict.fromkeys(found):
            listener = socket.socket(family, socket.SOCK_STREAM)
            listeners.append(listener)
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if len(found) > 1 and family == socket.AF_INET6:
                # `::` alone takes IPv4 as well; a name that has both gets a socket for each.
                listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            listener.bind((where[0], port, *where[2:]))
            port = listener.getsockname()[1]
            _start(listener)
    except OSError:
        for listener in listeners:
            listener.close()
        raise
    return listeners


def _listen_unix(path: str) -> socket.socket:
    _remove_stale(path)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        # On Linux the file takes its mode from the socket, so it is never there with another one.
        os.fchmod(listener.fileno(), 0o600)
        listener.bind(path)
        _start(listener)
    except OSError:
        listener.close()
        raise
    return listener


def _start(listener: socket.socket) -> None:
    listener.listen(_BACKLOG)
    listener.settimeout(0)


def _remove_stale(path: str) -> None:
    """Removes a socket that nobody listens on; a live one, and any other file, is left alone."""
    try:
        mode = Path(path).lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise ValueError(f"cannot listen on unix:{path}: it is not a socket; choose another path")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(0)
        # EAGAIN means that its backlog is full: it is live, and busy.
        if probe.connect_ex(path) != errno.ECONNREFUSED:
            raise ValueError(
                f"cannot listen on unix:{path}: another process listens there; choose another path"
            )
    Path(path).unlink()
