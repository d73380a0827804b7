"""A server of a small table of routes, and plain clients of it."""

from __future__ import annotations

import socket
import ssl
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPSConnection
from queue import SimpleQueue

from otel_ofu.net.http_limits import HttpLimits
from otel_ofu.net.http_server import HttpServer, SocketAddress
from otel_ofu.net.http_service import HttpRequest, HttpResponse, HttpRoute, HttpService, Reply
from otel_ofu.net.settings import Address
from tests.waiting import HANGS_S

LOOPBACK = Address("127.0.0.1", 0)
Answer = tuple[int, dict[str, str], bytes]


@dataclass
class Held:
    """A handler that answers when the test says so, from the thread of the test."""

    replies: SimpleQueue[Reply] = field(default_factory=SimpleQueue)

    def handle(self, _request: HttpRequest, reply: Reply) -> None:
        self.replies.put(reply)

    def release(self) -> None:
        self.replies.get(timeout=HANGS_S)(HttpResponse(b"released"))


@dataclass
class Client:
    server: HttpServer

    def ask(
        self,
        path: str = "/page",
        method: str = "GET",
        body: bytes | None = None,
        *,
        tls: ssl.SSLContext | None = None,
        **headers: str,
    ) -> Answer:
        """Status, headers (in lower case) and body."""
        with closing(self._connect(tls)) as connection:
            names = {name.replace("_", "-"): value for name, value in headers.items()}
            connection.request(method, path, body, names)
            answer = connection.getresponse()
            found = {name.lower(): value for name, value in answer.getheaders()}
            return answer.status, found, answer.read()

    def _connect(self, tls: ssl.SSLContext | None) -> HTTPConnection:
        port = self.server.port
        if tls:
            return HTTPSConnection("127.0.0.1", port, timeout=HANGS_S, context=tls)
        return HTTPConnection("127.0.0.1", port, timeout=HANGS_S)

    def open(self, sent: bytes = b"") -> socket.socket:
        plain = socket.create_connection(("127.0.0.1", self.server.port), timeout=HANGS_S)
        plain.sendall(sent)
        return plain

    def raw(self, sent: bytes) -> bytes:
        """Everything that the server answers to these bytes until it closes."""
        with closing(self.open(sent)) as plain:
            return read_all(plain)


def read_all(plain: socket.socket) -> bytes:
    return b"".join(iter(lambda: plain.recv(65536), b""))


def is_ended(plain: socket.socket) -> bool:
    """Whether the server closed it; does not wait."""
    plain.settimeout(0)
    try:
        return plain.recv(1) == b""
    except BlockingIOError:
        return False
    except ConnectionError:
        return True


def page(text: bytes) -> Callable[[HttpRequest, Reply], None]:
    return lambda _request, reply: reply(HttpResponse(text))


def echo(request: HttpRequest, reply: Reply) -> None:
    reply(HttpResponse(request.content(100)))


def broken(_request: HttpRequest, _reply: Reply) -> None:
    raise ZeroDivisionError("of a test")


ROUTES = (
    HttpRoute("GET", "/page", page(b"a page")),
    HttpRoute("GET", "/both", page(b"read")),
    HttpRoute("POST", "/both", echo, body_bytes=100),
    HttpRoute("POST", "/echo", echo, body_bytes=100),
    HttpRoute("GET", "/broken", broken),
)


@contextmanager
def serving(
    routes: Sequence[HttpRoute] = ROUTES,
    limits: HttpLimits | None = None,
    *,
    address: SocketAddress = LOOPBACK,
    allows: Callable[[str], bool] | None = None,
    context: ssl.SSLContext | None = None,
) -> Iterator[Client]:
    server = HttpServer(
        address, HttpService(routes, allows), limits or HttpLimits(), context=context
    )
    server.start()
    try:
        yield Client(server)
    finally:
        server.close()
        server.close()


async def counted(count: int, ended: SimpleQueue[str]) -> AsyncGenerator[bytes, None]:
    """Numbered events."""
    try:
        for number in range(count):
            yield b"data: %d\n\n" % number
    finally:
        ended.put("ended")
