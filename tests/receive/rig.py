"""A receiver on free ports, and plain clients of it."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPResponse, HTTPSConnection
from typing import Any

import grpc
import msgspec

from otel_ofu.catalog.registry import load_registry
from otel_ofu.mfu import built_in_names
from otel_ofu.model.clock import VirtualClock
from otel_ofu.net.http_limits import HttpLimits
from otel_ofu.receive import Buffer, ListenerSettings, OtlpReceiver, OtlpReceiverSettings
from otel_ofu.store import Store
from tests.receive.bodies import T0
from tests.waiting import HANGS_S

PROTOBUF = {"Content-Type": "application/x-protobuf"}
FREE = ListenerSettings(endpoint="127.0.0.1:0")
EXPORT = "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export"


@dataclass
class Rig:
    receiver: OtlpReceiver
    store: Store

    @property
    def port(self) -> int:
        assert self.receiver.http is not None
        return self.receiver.http.port

    @property
    def grpc_port(self) -> int:
        assert self.receiver.grpc is not None
        return self.receiver.grpc.address.port

    def post(
        self,
        body: bytes | Iterator[bytes],
        headers: Mapping[str, str] = PROTOBUF,
        *,
        path: str = "/v1/metrics",
        method: str = "POST",
        context: ssl.SSLContext | None = None,
    ) -> tuple[int, dict[str, str], bytes]:
        """Status, headers (in lower case) and body of the answer."""
        with closing(self.connect(context)) as connection:
            return self.ask(connection, body, headers, path=path, method=method)

    def connect(self, context: ssl.SSLContext | None = None) -> HTTPConnection:
        if context:
            return HTTPSConnection("127.0.0.1", self.port, timeout=HANGS_S, context=context)
        return HTTPConnection("127.0.0.1", self.port, timeout=HANGS_S)

    def ask(
        self,
        connection: HTTPConnection,
        body: bytes | Iterator[bytes],
        headers: Mapping[str, str] = PROTOBUF,
        *,
        path: str = "/v1/metrics",
        method: str = "POST",
    ) -> tuple[int, dict[str, str], bytes]:
        chunked = not isinstance(body, bytes)
        connection.request(method, path, body, dict(headers), encode_chunked=chunked)
        return read(connection.getresponse())

    def raw(self, sent: bytes) -> bytes:
        """Everything that the server says to these bytes until it closes."""
        with closing(self.open()) as plain:
            plain.sendall(sent)
            return b"".join(iter(lambda: plain.recv(65536), b""))

    def open(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=HANGS_S)

    @contextmanager
    def channel(self, credentials: Any = None, **options: Any) -> Iterator[Any]:  # noqa: ANN401 - grpc has no types
        target = f"127.0.0.1:{self.grpc_port}"
        opened = (
            grpc.secure_channel(target, credentials, **options)
            if credentials
            else grpc.insecure_channel(target, **options)
        )
        with opened as channel:
            yield channel

    def call(
        self,
        body: bytes,
        method: str = EXPORT,
        metadata: tuple[tuple[str, str], ...] = (),
        credentials: Any = None,  # noqa: ANN401 - as above
    ) -> bytes:
        with self.channel(credentials) as channel:
            answer: bytes = channel.unary_unary(method)(body, metadata=metadata, timeout=HANGS_S)
            return answer

    def stored(self, key: str = "ofu", kind: Any = "gpu") -> list[float]:  # noqa: ANN401 - a Literal
        """The values of a metric, after the receiver was closed or had time to write."""
        with self.store.reading():
            block = self.store.block(kind, key, T0 - 300.0, T0 + 300.0).array()
        return [float(value) for value in block.reshape(-1).tolist() if value == value]  # noqa: PLR0124 - NaN


def read(response: HTTPResponse) -> tuple[int, dict[str, str], bytes]:
    return response.status, {k.lower(): v for k, v in response.getheaders()}, response.read()


@dataclass
class Options:
    settings: OtlpReceiverSettings = field(default_factory=OtlpReceiverSettings)
    deadlines: HttpLimits | None = None
    grpc: bool = False
    started: bool = True


@contextmanager
def receiving(options: Options | None = None) -> Iterator[Rig]:
    """A receiver, closed at the end."""
    given = options or Options()
    store = Store(load_registry(), clock=VirtualClock(T0 + 100.0))
    grpc = FREE if given.grpc else ListenerSettings()
    settings = msgspec.structs.replace(given.settings, http=FREE, grpc=grpc)
    receiver = OtlpReceiver(
        settings, Buffer(store), names=built_in_names(), deadlines=given.deadlines
    )
    if given.started:
        receiver.start()
    try:
        yield Rig(receiver, store)
    finally:
        receiver.close()
