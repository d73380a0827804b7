"""OTLP over gRPC: one call, `MetricsService/Export`.

Enters: calls. Leaves: tasks for the thread that decodes, and its answers to the clients.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, TimeoutError  # noqa: A004 - its own in 3.10, the built-in since
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from otel_ofu.net.http_limits import HttpLimits, MemoryBudget
from otel_ofu.net.http_service import Refusal, busy, stopping
from otel_ofu.net.secrets import BearerToken
from otel_ofu.net.settings import Address
from otel_ofu.net.tls import ServerTls
from otel_ofu.receive.answers import code_of, success, trailers
from otel_ofu.receive.decode_worker import DecodeOutcome, DecodeTask
from otel_ofu.receive.settings import OtlpReceiverSettings

if TYPE_CHECKING:
    import grpc

_EXPORT = "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export"
# Starting values: threads that wait for the one that decodes, how long, and for calls at the end.
_THREADS = 8
_PATIENCE_S = 10.0
_GRACE_S = 0.5
_MOST_CALLS = 4096
"""Starting value. Beyond it grpcio answers RESOURCE_EXHAUSTED, which clients need not repeat."""


@dataclass(frozen=True, slots=True)
class GrpcDependencies:
    """What calls need: who takes their bodies, how much they may take, and who may call."""

    offer: Callable[[DecodeTask], bool]
    budget: MemoryBudget
    settings: OtlpReceiverSettings
    limits: HttpLimits
    token: BearerToken | None


class GrpcServer:
    """Listens from the moment that it is built. ValueError if it cannot, in one line."""

    def __init__(self, address: Address, needs: GrpcDependencies, credentials: Any) -> None:  # noqa: ANN401 - grpc has no types
        import grpc  # noqa: PLC0415 - when first used

        self._pool = _CountingPool(_THREADS, "otlp-grpc")
        calls = _Calls(needs, self._pool)
        self._server = grpc.server(
            self._pool,
            [_service(calls)],
            options=_options(needs),
            maximum_concurrent_rpcs=_MOST_CALLS,
        )
        try:
            port = self._bind(address, credentials)
        except RuntimeError as error:
            self._pool.shutdown(wait=False)
            raise ValueError(
                f"cannot listen on {address}: the address is taken or not there;"
                " choose another port"
            ) from error
        self.address = Address(address.host, port)

    def start(self) -> None:
        self._server.start()

    def close(self) -> None:
        """Ends listening, and calls that are not answered in half a second."""
        self._server.stop(_GRACE_S).wait(2 * _GRACE_S)
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _bind(self, address: Address, credentials: Any) -> int:  # noqa: ANN401 - as above
        if credentials is None:
            return int(self._server.add_insecure_port(str(address)))
        return int(self._server.add_secure_port(str(address), credentials))


class _CountingPool(ThreadPoolExecutor):
    """Knows how many calls wait for a thread."""

    def __init__(self, threads: int, name: str) -> None:
        super().__init__(threads, name)
        self._waiting = 0
        self._count_lock = threading.Lock()

    @property
    def waiting(self) -> int:
        return self._waiting

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:  # noqa: ANN401 - as the base has it
        with self._count_lock:
            self._waiting += 1
        future = super().submit(fn, *args, **kwargs)
        future.add_done_callback(self._done)
        return future

    def _done(self, _future: Future[Any]) -> None:
        with self._count_lock:
            self._waiting -= 1


class _Calls:
    """Answers calls, each on a thread of the pool."""

    def __init__(self, needs: GrpcDependencies, pool: _CountingPool) -> None:
        self._needs = needs
        self._pool = pool

    def export(self, body: bytes, context: grpc.ServicerContext) -> bytes:
        refusal = self._before(context)
        outcome = DecodeOutcome(refusal) if refusal else self._taken(body)
        if outcome.refusal is not None:
            _abort(context, outcome.refusal)
        return success("protobuf", outcome.rejected, outcome.message)

    def elsewhere(self, _body: bytes, context: grpc.ServicerContext) -> bytes:
        refusal = self._before(context) or Refusal(
            501, f"this receiver takes metrics, at {_EXPORT}"
        )
        _abort(context, refusal)
        return b""

    def _before(self, context: grpc.ServicerContext) -> Refusal | None:
        token: BearerToken | None = self._needs.token
        if token is not None and not token.allows(_authorization(context)):
            return Refusal(401, "a bearer token is required")
        if self._pool.waiting > self._needs.settings.max_pending_requests:
            return busy()
        return None

    def _taken(self, body: bytes) -> DecodeOutcome:
        if not self._needs.budget.take(len(body)):
            return DecodeOutcome(busy())
        answer: Future[DecodeOutcome] = Future()
        task = DecodeTask(body, "protobuf", gzipped=False, limit=len(body), reply=answer.set_result)
        try:
            if not self._needs.offer(task):
                return DecodeOutcome(busy())
            return answer.result(_PATIENCE_S)
        except TimeoutError:
            return DecodeOutcome(stopping())
        finally:
            self._needs.budget.give(len(body))


def _abort(context: grpc.ServicerContext, refusal: Refusal) -> None:
    import grpc  # noqa: PLC0415 - when first used

    codes = {code.value[0]: code for code in grpc.StatusCode}
    context.set_trailing_metadata(trailers(refusal))
    context.abort(codes[int(code_of(refusal))], refusal.message.encode("ascii", "replace").decode())


def _authorization(context: grpc.ServicerContext) -> str:
    for name, value in context.invocation_metadata():
        if name == "authorization":
            return value if isinstance(value, str) else ""
    return ""


def _service(calls: _Calls) -> Any:  # noqa: ANN401 - grpc has no types
    import grpc  # noqa: PLC0415 - when first used

    class Service(grpc.GenericRpcHandler):  # type: ignore[misc]  # as above
        """Bodies stay bytes: what they mean is found out on the thread that decodes."""

        def service(self, details: grpc.HandlerCallDetails) -> object:
            taken = details.method == _EXPORT
            return grpc.unary_unary_rpc_method_handler(calls.export if taken else calls.elsewhere)

    return Service()


def grpc_credentials(tls: ServerTls) -> Any:  # noqa: ANN401 - grpc has no types
    """None without a certificate; the files are known to be usable (`server_context`)."""
    import grpc  # noqa: PLC0415 - when first used

    if not tls.cert_file:
        return None
    pair = Path(tls.key_file or tls.cert_file).read_bytes(), Path(tls.cert_file).read_bytes()
    ca = Path(tls.client_ca_file).read_bytes() if tls.client_ca_file else None
    return grpc.ssl_server_credentials([pair], ca, require_client_auth=ca is not None)


def _options(needs: GrpcDependencies) -> list[tuple[str, int]]:
    return [
        (
            "grpc.max_receive_message_length",
            int(needs.settings.max_grpc_size),
        ),  # after decompression as well
        ("grpc.max_metadata_size", needs.limits.head_bytes),
        ("grpc.absolute_max_metadata_size", needs.limits.head_bytes),
        ("grpc.so_reuseport", 0),  # two agents on one port would share it silently
        ("grpc.max_connection_idle_ms", int(needs.limits.idle_s * 1000)),
        ("grpc.max_concurrent_streams", 100),
        ("grpc.keepalive_permit_without_calls", 1),
    ]
