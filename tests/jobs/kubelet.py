"""A kubelet: PodResources v1 over gRPC on a unix socket, and /pods over HTTP.

The bytes are written by hand from the field numbers of api.proto, so that our reading of the
messages is checked against something that it did not make.
"""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import grpc

from tests.waiting import HANGS_S

Parts = bytes | str
Answer = bytes | Callable[[grpc.ServicerContext], bytes]


def message(number: int, content: Parts) -> bytes:
    """A length-delimited field."""
    raw = content.encode() if isinstance(content, str) else content
    return _varint(number << 3 | 2) + _varint(len(raw)) + raw


def _varint(value: int) -> bytes:
    out = b""
    while value > 0x7F:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def devices(resource: str, *ids: str) -> bytes:
    """ContainerDevices, with a topology that nobody reads."""
    topology = message(3, message(1, _varint(1 << 3) + _varint(0)))
    return message(1, resource) + b"".join(message(2, id_) for id_ in ids) + topology


def claimed(driver: str, device: str, *cdi: str) -> bytes:
    """DynamicResource of one claim."""
    claim = b"".join(message(1, message(1, name)) for name in cdi)
    claim += message(2, driver) + message(3, "node-a") + message(4, device)
    return message(2, "gpu-claim") + message(3, "ml") + message(4, claim)


def container(name: str, *plugged: bytes, dynamic: Sequence[bytes] = ()) -> bytes:
    cpu_ids = message(3, bytes([0, 1, 2]))
    given = b"".join(message(2, part) for part in plugged)
    return message(1, name) + given + cpu_ids + b"".join(message(5, part) for part in dynamic)


def pod(namespace: str, name: str, *containers: bytes) -> bytes:
    parts = b"".join(message(3, part) for part in containers)
    return message(1, message(1, name) + message(2, namespace) + parts)


class PodResourcesServer:
    """Answers List with `answer`; `calls` counts."""

    def __init__(self, socket: Path) -> None:
        self.answer: Answer = b""
        self.calls = 0
        self._pool = ThreadPoolExecutor(2)
        self._server = grpc.server(self._pool)
        handler = grpc.unary_unary_rpc_method_handler(self._list)
        service = grpc.method_handlers_generic_handler("v1.PodResourcesLister", {"List": handler})
        self._server.add_generic_rpc_handlers((service,))
        self._server.add_insecure_port(f"unix://{socket}")
        self._server.start()

    def _list(self, request: bytes, context: grpc.ServicerContext) -> bytes:
        self.calls += 1
        assert request == b""
        return self.answer(context) if callable(self.answer) else self.answer

    def stop(self) -> None:
        self._server.stop(None).wait(HANGS_S)
        self._pool.shutdown()


@contextmanager
def pods_page(
    items: object, seen: list[str | None] | None = None, tls: ssl.SSLContext | None = None
) -> Iterator[str]:
    """The base address of a kubelet whose /pods gives `items`; `seen` gets what was sent along."""
    body = items if isinstance(items, bytes) else json.dumps({"items": items}).encode()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if seen is not None:
                seen.append(self.headers["Authorization"])
            self.send_response(200 if self.path == "/pods" else 404)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_args: object) -> None:
            """Tests are quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http{'s' if tls else ''}://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
