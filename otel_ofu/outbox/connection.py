"""Connections of `requests` that can be cut at a deadline, from their first SYN on.

Enters: a deadline. Leaves: an adapter whose connections keep it. Imported late, by who posts.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from requests.adapters import HTTPAdapter
from urllib3 import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.connection import HTTPConnection, HTTPSConnection

from otel_ofu.net.deadline import cut, deadline

if TYPE_CHECKING:
    import threading


class Line:
    """The connection that is in use, and until when. One exchange at a time."""

    def __init__(self) -> None:
        self._until_s = 0.0
        self._connection: HTTPConnection | None = None
        self._sock: socket.socket | None = None

    @contextmanager
    def exchange(self, limit_s: float) -> Iterator[threading.Event]:
        """Cuts the line after `limit_s` seconds; the event says that this happened."""
        self._connection = self._sock = None
        self._until_s = time.monotonic() + limit_s
        with deadline(limit_s, self._cut) as passed:
            yield passed

    def left_s(self) -> float:
        """TimeoutError if nothing is left."""
        left_s = self._until_s - time.monotonic()
        if left_s <= 0:
            raise TimeoutError
        return left_s

    def opening(self, connection: HTTPConnection) -> None:
        """From now on its `sock`, whichever it is, is the one to cut."""
        self._connection = connection

    def opened(self, connection: HTTPConnection) -> None:
        """Keeps the socket itself: a connection forgets it while an answer is still being read."""
        self._sock = connection.sock
        self.left_s()  # the time may have been up before there was anything to cut

    def open_socket(self, host: str, port: int) -> socket.socket:
        """Tries each address of the host, all within the time left.

        The look-up of the name has the bounds that the system's resolver sets.
        """
        problem: OSError | None = None
        for family, kind, protocol, _, address in socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM
        ):
            sock = socket.socket(family, kind, protocol)
            try:
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                sock.settimeout(self.left_s())
                sock.connect(address)
                # What follows at once is a TLS handshake, which takes this timeout for all of it.
                sock.settimeout(self.left_s())
            except OSError as error:
                sock.close()
                problem = error
            else:
                return sock
        raise problem or OSError("the host has no address")

    def _cut(self) -> None:
        of_connection = self._connection.sock if self._connection else None
        for sock in (of_connection, self._sock):
            if sock is not None:
                cut(sock)


class LineAdapter(HTTPAdapter):
    """Opens every connection on the line, those to a proxy for HTTP included."""

    def __init__(self, line: Line) -> None:
        self._pools = _pools(line)
        super().__init__()

    def init_poolmanager(self, *args: Any, **options: Any) -> None:  # noqa: ANN401 - as the base has it
        super().init_poolmanager(*args, **options)
        self.poolmanager.pool_classes_by_scheme = self._pools

    def proxy_manager_for(self, proxy: str, **options: Any) -> Any:  # noqa: ANN401 - as the base has it
        manager = super().proxy_manager_for(proxy, **options)
        if not proxy.lower().startswith("socks"):  # those have connections of their own kind
            manager.pool_classes_by_scheme = self._pools
        return manager


def _pools(line: Line) -> dict[str, type[HTTPConnectionPool]]:
    """Classes of their own for each line: urllib3 takes classes, not objects, for what it opens."""

    class OnLine(HTTPConnection):
        def _new_conn(self) -> socket.socket:
            return line.open_socket(self.host.strip("[]"), self.port)

        def connect(self) -> None:
            line.opening(self)
            super().connect()
            line.opened(self)

        def request(self, *args: Any, **options: Any) -> None:  # noqa: ANN401 - as the base has it
            if self.sock is not None:  # kept from an earlier exchange
                line.opened(self)
            super().request(*args, **options)

    class OnLineTls(OnLine, HTTPSConnection):
        pass

    class Pool(HTTPConnectionPool):
        ConnectionCls = OnLine

    class TlsPool(HTTPSConnectionPool):
        ConnectionCls = OnLineTls

    return {"http": Pool, "https": TlsPool}
