"""A real HTTP server on the loopback that answers as it is told."""

from __future__ import annotations

import contextlib
import ssl
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

Answer = Callable[["Exchange"], None]


class Exchange(BaseHTTPRequestHandler):
    """One request; `connections` counts the TCP connections of the server's life."""

    protocol_version = "HTTP/1.1"
    timeout = 5  # seconds that a connection may stay idle
    server: Server

    def setup(self) -> None:
        super().setup()
        self.server.connections += 1

    def do_GET(self) -> None:
        self.server.paths.append(self.path)
        self.server.authorizations.append(self.headers.get("Authorization", ""))
        with contextlib.suppress(ConnectionError):  # the client may have enough
            self.server.answer(self)

    def log_message(self, *args: object) -> None:
        pass

    def reply(self, body: bytes, status: int = 200, **headers: str) -> None:
        """A complete answer; header names are given with _ for -."""
        self.send_response(status)
        named = {"Content_Type": "text/plain; version=0.0.4", "Content_Length": str(len(body))}
        for name, value in (named | headers).items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)


class Server(ThreadingHTTPServer):
    """`answer` may be changed at any time; `stopping` ends answers that wait."""

    daemon_threads = False  # closing waits for them

    def __init__(self, answer: Answer, tls: ssl.SSLContext | None = None) -> None:
        super().__init__(("127.0.0.1", 0), Exchange)
        if tls is not None:
            self.socket = tls.wrap_socket(self.socket, server_side=True)
        self._scheme = "https" if tls else "http"
        self.answer = answer
        self.stopping = threading.Event()
        self.connections = 0
        self.paths: list[str] = []
        self.authorizations: list[str] = []

    @property
    def url(self) -> str:
        return f"{self._scheme}://127.0.0.1:{self.server_port}/metrics"

    def handle_error(self, request: object, client_address: object) -> None:
        pass  # clients that hang up are part of the tests


@contextlib.contextmanager
def serving(answer: Answer, tls: ssl.SSLContext | None = None) -> Iterator[Server]:
    server = Server(answer, tls)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield server
    finally:
        server.stopping.set()
        server.shutdown()
        thread.join()
        server.server_close()


def page(text: str) -> Answer:
    return lambda exchange: exchange.reply(text.encode())


@contextlib.contextmanager
def gone() -> Iterator[str]:
    """An address where nothing listens."""
    with serving(page("")) as server:
        url = server.url
    yield url
