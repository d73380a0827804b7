"""Loopback servers that answer by a script, over HTTP and gRPC, and keep what they were sent."""

from __future__ import annotations

import gzip
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import grpc

from tests.waiting import HANGS_S


@dataclass
class Reply:
    """What the HTTP server says; `reset` breaks the connection in the middle of it.

    `repeat` sends the body so many times, or until nobody reads on.
    """

    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = field(
        default_factory=lambda: {"Content-Type": "application/x-protobuf"}
    )
    reset: bool = False
    repeat: int = 1
    wait: threading.Event | None = None


@dataclass
class Got:
    path: str
    headers: Mapping[str, str]
    raw: bytes


class HttpServer:
    """Answers each request with the next reply, and with success once they are used up."""

    def __init__(self, replies: list[Reply], tls: ssl.SSLContext | None = None) -> None:
        self.replies = list(replies)
        self.got: list[Got] = []
        self.written = 0
        owner = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                owner.answer(self)

            def log_message(self, format: str, *args: object) -> None: ...  # noqa: A002 - the base's name

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            block_on_close = False

            def handle_error(self, request: object, client_address: object) -> None: ...

        self.server = Server(("127.0.0.1", 0), Handler)
        if tls is not None:
            self.server.socket = tls.wrap_socket(self.server.socket, server_side=True)
        self.port = int(self.server.server_address[1])
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.02,))

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        raw = handler.rfile.read(int(handler.headers.get("Content-Length", "0")))
        if handler.headers.get("Content-Encoding") == "gzip":
            raw = gzip.decompress(raw)
        self.got.append(Got(handler.path, dict(handler.headers.items()), raw))
        reply = self.replies.pop(0) if self.replies else Reply()
        if reply.wait is not None:
            reply.wait.wait(HANGS_S)
        if reply.reset:
            linger = struct.pack("ii", 1, 0)
            handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
            handler.close_connection = True
            handler.connection.close()
            return
        handler.send_response(reply.status)
        for name, value in reply.headers.items():
            handler.send_header(name, value)
        handler.send_header("Content-Length", str(len(reply.body) * reply.repeat))
        handler.end_headers()
        for _ in range(reply.repeat):
            handler.wfile.write(reply.body)
            self.written += len(reply.body)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@contextmanager
def http_server(*replies: Reply, tls: ssl.SSLContext | None = None) -> Iterator[HttpServer]:
    server = HttpServer(list(replies), tls)
    server.thread.start()
    try:
        yield server
    finally:
        server.server.shutdown()
        server.thread.join(HANGS_S)
        server.server.server_close()


Answer = Callable[[grpc.ServicerContext], bytes]


class GrpcServer(grpc.GenericRpcHandler):  # type: ignore[misc]  # grpc has no types
    """Answers each call with the next answer, and with success once they are used up."""

    def __init__(self, answers: list[Answer]) -> None:
        self.answers = answers
        self.got: list[Got] = []
        self.port = 0

    def service(self, details: Any) -> object:  # noqa: ANN401 - grpc has no types
        def call(raw: bytes, context: grpc.ServicerContext) -> bytes:
            metadata = {k: str(v) for k, v in context.invocation_metadata()}
            self.got.append(Got(details.method, metadata, raw))
            return self.answers.pop(0)(context) if self.answers else b""

        return grpc.unary_unary_rpc_method_handler(call)


@contextmanager
def grpc_server(*answers: Answer, credentials: object = None) -> Iterator[GrpcServer]:
    handler = GrpcServer(list(answers))
    server = grpc.server(ThreadPoolExecutor(2), options=[("grpc.max_receive_message_length", 4096)])
    server.add_generic_rpc_handlers((handler,))
    if credentials is None:
        handler.port = server.add_insecure_port("127.0.0.1:0")
    else:
        handler.port = server.add_secure_port("127.0.0.1:0", credentials)
    server.start()
    try:
        yield handler
    finally:
        server.stop(None).wait(HANGS_S)
