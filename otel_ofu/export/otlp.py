"""OTLP by either protocol: one request with ready-made bytes, and what its answer means.

Enters: settings, bodies. Leaves: outcomes; an `EndpointCheck` for people.
Source: OpenTelemetry protocol specification 1.9, OTLP/HTTP response and OTLP/gRPC response.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from google.protobuf.message import DecodeError
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceResponse,
)

from otel_ofu.export.request import halves
from otel_ofu.export.settings import OtlpSettings, Signal
from otel_ofu.net.http_client import Response
from otel_ofu.net.tls import check_tls_files, pem_files
from otel_ofu.outbox.batch import Body
from otel_ofu.outbox.outcome import (
    MAX_RETRY_AFTER_S,
    Delivered,
    Outcome,
    Poster,
    Refused,
    TooLarge,
    Transport,
    Unavailable,
    requested_delay_s,
    short,
)

if TYPE_CHECKING:
    import grpc


def partial_success(answer: bytes, signal: str) -> tuple[int, str]:
    """How many points or records were rejected, and why; (0, "") if all were taken."""
    try:
        if signal == "metrics":
            metrics = ExportMetricsServiceResponse.FromString(answer).partial_success
            return max(0, metrics.rejected_data_points), metrics.error_message
        logs = ExportLogsServiceResponse.FromString(answer).partial_success
        return max(0, logs.rejected_log_records), logs.error_message
    except DecodeError:
        return 0, ""


def status_message(answer: bytes) -> str:
    """The message of a serialised google.rpc.Status."""
    try:
        return str(Status.FromString(answer).message)
    except DecodeError:
        return ""


def retry_delay_s(status: bytes | None, retry_info: bytes | None) -> float | None:
    """The delay of a RetryInfo: within a google.rpc.Status, or by itself; None without one."""
    try:
        if status is not None:
            for detail in Status.FromString(status).details:
                info = RetryInfo()
                if detail.Unpack(info):
                    return _delay_s(info)
        return None if retry_info is None else _delay_s(RetryInfo.FromString(retry_info))
    except DecodeError:
        return None


def _delay_s(info: RetryInfo) -> float:
    return max(0.0, float(info.retry_delay.seconds + info.retry_delay.nanos / 1e9))


_RETRYABLE = (429, 502, 503, 504)
# An expired token, a wrong path, a proxy in between: somebody will fix it.
_FIXABLE = (401, 403, 404, 405, 407)
_TOO_LARGE = 413
_PROTOBUF = "application/x-protobuf"


class OtlpHttpTransport:
    """Keeps one connection open. ValueError at once for TLS files that cannot be used.

    A redirect is not followed and is no success: a login page would swallow everything. It is
    about the way, not about the body, so the body is kept and sent again; the same goes
    for a web page with status 200, and for credentials or a path that are not (or no longer) good.
    """

    def __init__(self, settings: OtlpSettings) -> None:
        self._settings = settings
        self._poster = Poster(settings.tls)
        self._zipped = settings.compression == "gzip"
        encoding = {"Content-Encoding": "gzip"} if self._zipped else {}
        kinds = {"Content-Type": _PROTOBUF, "Accept": _PROTOBUF}
        self._headers = {**settings.headers, **kinds, **encoding}

    @property
    def endpoint(self) -> str:
        return self._settings.shown_endpoint

    def send(self, body: Body, limit_s: float) -> Outcome:
        answer = self._poster.post(
            self._settings.endpoint,
            body.gzipped if self._zipped else body.raw(),
            self._headers,
            min(limit_s, self._settings.timeout_s),
        )
        return answer if isinstance(answer, Unavailable) else self._judged(answer, body.signal)

    def halves(self, body: Body) -> tuple[Body, Body] | None:
        return halves(body)

    def close(self) -> None:
        self._poster.close()

    def _judged(self, answer: Response, signal: str) -> Outcome:
        if answer.is_success:
            if answer.content_type == "text/html":
                return Unavailable(f"HTTP {answer.status} with a web page, not an answer of OTLP")
            return self._taken(answer.body if answer.content_type == _PROTOBUF else b"", signal)
        message = self._message(answer)
        if answer.status == _TOO_LARGE:
            return TooLarge(message)
        if answer.status in (*_RETRYABLE, *_FIXABLE):
            return Unavailable(message, requested_delay_s(answer))
        return Unavailable(message) if answer.is_redirect else Refused(message)

    def _taken(self, answer: bytes, signal: str) -> Outcome:
        rejected, message = partial_success(answer, signal)
        return Delivered(rejected, short(self._settings.redacted(message)))

    def _message(self, answer: Response) -> str:
        if answer.is_redirect:
            target = answer.location or "nowhere"
            return short(f"HTTP {answer.status}, a redirect to {target}; not followed")
        is_status = answer.content_type == _PROTOBUF
        text = status_message(answer.body) if is_status else answer.text
        head = f"HTTP {answer.status_line}"
        return short(self._settings.redacted(f"{head}: {text}" if text.strip() else head))


_METHODS = {
    "metrics": "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export",
    "logs": "/opentelemetry.proto.collector.logs.v1.LogsService/Export",
}
_RETRYABLE_CODES = frozenset(
    ("CANCELLED", "DEADLINE_EXCEEDED", "ABORTED", "OUT_OF_RANGE", "UNAVAILABLE", "DATA_LOSS")
)
# An expired token, a wrong port or path: somebody will fix it.
_FIXABLE_CODES = frozenset(("UNAUTHENTICATED", "PERMISSION_DENIED", "UNIMPLEMENTED"))
# How grpc-go and grpc-core, grpc-java, and tonic report that a message is too large for them.
_TOO_LARGE_DETAILS = ("larger than max", "exceeds maximum size", "message length too large")
_OPTIONS = (
    ("grpc.enable_retries", 0),
    ("grpc.use_local_subchannel_pool", 1),
    # Starting values. The default waits up to two minutes before it tries a server again.
    ("grpc.initial_reconnect_backoff_ms", 500),
    ("grpc.max_reconnect_backoff_ms", 5000),
)


class OtlpGrpcTransport:
    """Keeps one channel open. ValueError at once for TLS files that cannot be used."""

    def __init__(self, settings: OtlpSettings) -> None:
        check_tls_files(settings.tls)
        self._settings = settings
        self._channel: grpc.Channel | None = None

    @property
    def endpoint(self) -> str:
        return self._settings.shown_endpoint

    def send(self, body: Body, limit_s: float) -> Outcome:
        method = self._opened().unary_unary(_METHODS[body.signal])
        try:
            answer = method(
                body.raw(),
                timeout=min(limit_s, self._settings.timeout_s),
                metadata=tuple(self._settings.headers.items()),
                compression=self._compression(),
            )
        except _grpc().RpcError as error:
            return self._failed(error)
        rejected, message = partial_success(answer, body.signal)
        return Delivered(rejected, short(self._settings.redacted(message)))

    def halves(self, body: Body) -> tuple[Body, Body] | None:
        return halves(body)

    def close(self) -> None:
        if self._channel is not None:
            self._channel.close()
            self._channel = None

    def _failed(self, error: grpc.RpcError) -> Outcome:
        code = error.code().name
        if code == "DEADLINE_EXCEEDED":
            # A connection whose other end is gone would be used until TCP gives up.
            self.close()
        details = self._settings.redacted(error.details() or "")
        return judged(code, details, dict(error.trailing_metadata() or ()))

    def _opened(self) -> grpc.Channel:
        if self._channel is None:
            target = self._settings.endpoint
            if self._settings.plaintext:
                self._channel = _grpc().insecure_channel(target, _OPTIONS)
            else:
                self._channel = _grpc().secure_channel(target, self._credentials(), _OPTIONS)
        return self._channel

    def _credentials(self) -> grpc.ChannelCredentials:
        return _grpc().ssl_channel_credentials(*pem_files(self._settings.tls))

    def _compression(self) -> grpc.Compression:
        zipped = self._settings.compression == "gzip"
        compression = _grpc().Compression
        return compression.Gzip if zipped else compression.NoCompression


def judged(
    code: str, details: str, trailers: Mapping[str, bytes]
) -> Refused | TooLarge | Unavailable:
    """What a gRPC status means; RESOURCE_EXHAUSTED is for later only with a RetryInfo."""
    message = short(f"gRPC {code}: {details}" if details else f"gRPC {code}")
    if any(text in details.lower() for text in _TOO_LARGE_DETAILS):
        return TooLarge(message)
    delay_s = retry_delay_s(
        trailers.get("grpc-status-details-bin"), trailers.get("google.rpc.retryinfo-bin")
    )
    if code in _RETRYABLE_CODES | _FIXABLE_CODES or (
        code == "RESOURCE_EXHAUSTED" and delay_s is not None
    ):
        return Unavailable(message, None if delay_s is None else min(delay_s, MAX_RETRY_AFTER_S))
    return Refused(message)


def _grpc() -> Any:  # noqa: ANN401 - a module without types
    # Its core writes about connections to the terminal by itself, over whatever stands there.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    import grpc  # noqa: PLC0415 - 190 ms and 33 MB that only this transport needs

    return grpc


# gzip of nothing: an OTLP request without resources, which every server has to take.
_EMPTY = bytes.fromhex("1f8b08000000000000ff03000000000000000000")
_GRPC_PORT = 4317
_HTTP_PORT = 4318


@dataclass(frozen=True, slots=True)
class EndpointCheck:
    """`problem` is empty if the endpoint took an empty request, in `elapsed_s` seconds."""

    endpoint: str
    elapsed_s: float
    problem: str = ""


def transport_for(settings: OtlpSettings) -> Transport:
    """ValueError if the settings name unusable TLS files."""
    return (
        OtlpGrpcTransport(settings) if settings.protocol == "grpc" else OtlpHttpTransport(settings)
    )


def check(settings: OtlpSettings, signal: Signal = "metrics") -> EndpointCheck:
    """Sends an empty request, once, within the settings' timeout; never raises."""
    began_s = time.monotonic()
    try:
        transport = transport_for(settings)
        try:
            outcome = transport.send(Body(signal, _EMPTY, 0), settings.timeout_s)
        finally:
            transport.close()
    except (OSError, ValueError) as error:
        return EndpointCheck(settings.shown_endpoint, time.monotonic() - began_s, str(error))
    problem = "" if isinstance(outcome, Delivered) else outcome.message + _hint(settings)
    return EndpointCheck(settings.shown_endpoint, time.monotonic() - began_s, problem)


def _hint(settings: OtlpSettings) -> str:
    """The usual mix-up: each protocol has its own port."""
    if settings.protocol == "grpc":
        mixed = settings.endpoint.endswith(f":{_HTTP_PORT}")
        return f" (port {_HTTP_PORT} is usually HTTP: protocol http/protobuf)" if mixed else ""
    mixed = urlsplit(settings.endpoint).port == _GRPC_PORT
    return f" (port {_GRPC_PORT} is usually gRPC: protocol grpc)" if mixed else ""
