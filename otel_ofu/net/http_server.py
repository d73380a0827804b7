"""The one HTTP server: an address, and a thread on which all of its connections live.

Enters: where to listen (an address of TCP, or a path of the file system), what to serve, and how
much clients may take. Leaves: connections, or a ValueError in one line. Each server has a thread
and limits of its own, so that a flood of one is none of another.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import socket
import ssl
import stat
import threading
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from otel_ofu.net.http_connection import HttpConnection
from otel_ofu.net.http_limits import Connections, HttpLimits, MemoryBudget
from otel_ofu.net.http_service import HttpService
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


_log = logging.getLogger(__name__)

# Starting values: for answers that are under way at the end, and for sockets to become free.
_LAST_ANSWERS_S = 0.05
_RETRY_ACCEPT_S = 0.5


class HttpServer:
    """Listens from the moment that it is built. ValueError if it cannot, in one line.

    `budget` may be shared with other servers; without it, that of the limits is its own.
    """

    def __init__(
        self,
        address: SocketAddress,
        service: HttpService,
        limits: HttpLimits,
        *,
        context: ssl.SSLContext | None = None,
        budget: MemoryBudget | None = None,
    ) -> None:
        self._listeners = listen(address)
        self.address = bound_to(address, self._listeners[0])
        self._loop = asyncio.new_event_loop()
        self._shared: Connections[HttpConnection] = Connections(service, limits, budget)
        self._context = context
        self._accepting: set[asyncio.Task[object]] = set()
        self._thread = threading.Thread(target=self._run, name=f"http {self.address}", daemon=True)

    @property
    def connections(self) -> int:
        """How many are open, also those that are being refused."""
        return len(self._shared.clients)

    @property
    def port(self) -> int:
        """Of TCP."""
        assert isinstance(self.address, Address)  # noqa: S101 - asked of servers of TCP alone
        return self.address.port

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Ends listening and every connection; what was answered by now was sent. Twice is fine."""
        if self._loop.is_closed():
            return
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stop)
            self._thread.join()
        else:
            self._stop_listening()
        self._loop.close()

    def _run(self) -> None:
        for listener in self._listeners:
            self._loop.add_reader(listener, self._accept, listener)
        self._loop.run_forever()

    def _accept(self, listener: socket.socket) -> None:
        """Takes some of those that wait: the ones before them must get to send their head."""
        for _ in range(max(1, self._shared.most // 4)):
            try:
                accepted, _ = listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:  # too many open files, most likely
                _log.warning("%s: cannot accept connections: %s", self.address, error.strerror)
                self._loop.remove_reader(listener)
                self._loop.call_later(_RETRY_ACCEPT_S, self._accept_again, listener)
                return
            accepted.settimeout(0)
            self._open(accepted)

    def _accept_again(self, listener: socket.socket) -> None:
        if listener.fileno() >= 0:
            self._loop.add_reader(listener, self._accept, listener)

    def _open(self, accepted: socket.socket) -> None:
        connection = HttpConnection(self._loop, self._shared, accepted)
        self._shared.enter(connection)
        task: asyncio.Task[object] = self._loop.create_task(
            self._loop.connect_accepted_socket(
                lambda: connection,
                accepted,
                ssl=self._context,
                ssl_handshake_timeout=self._shared.limits.head_s if self._context else None,
            )
        )
        self._accepting.add(task)
        task.add_done_callback(lambda task: self._opened(task, connection, accepted))

    def _opened(
        self, task: asyncio.Task[object], connection: HttpConnection, accepted: socket.socket
    ) -> None:
        self._accepting.discard(task)
        error = None if task.cancelled() else task.exception()
        if task.cancelled() or error is not None:
            self._shared.leave(connection)
            accepted.close()
            _log.debug("%s: a connection was not opened: %s", self.address, error)

    def _stop_listening(self) -> None:
        for listener in self._listeners:
            if self._thread.is_alive():
                self._loop.remove_reader(listener)
        stop_listening(self.address, self._listeners)

    def _stop(self) -> None:
        self._stop_listening()
        for connection in self._shared.clients:
            connection.end()
        wait_s = _LAST_ANSWERS_S if self._shared.clients else 0.0
        self._loop.call_later(wait_s, self._abort, wait_s)

    def _abort(self, wait_s: float) -> None:
        for connection in self._shared.clients:
            connection.abort()
        self._loop.call_later(wait_s, self._loop.stop)
