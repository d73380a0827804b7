"""OTLP over gRPC: one unary call with ready-made bytes, and what its status means.

Enters: bodies. Leaves: outcomes.
Source: OpenTelemetry protocol specification 1.9, OTLP/gRPC response.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from otel_ofu.export.request import halves
from otel_ofu.export.responses import partial_success, retry_delay_s
from otel_ofu.export.settings import OtlpSettings
from otel_ofu.net.tls import check_tls_files, pem_files
from otel_ofu.outbox.batch import Body
from otel_ofu.outbox.outcome import (
    MAX_RETRY_AFTER_S,
    Delivered,
    Outcome,
    Refused,
    TooLarge,
    Unavailable,
    short,
)

if TYPE_CHECKING:
    import grpc

_METHODS = {
    "metrics": "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export",
    "logs": "/opentelemetry.proto.collector.logs.v1.LogsService/Export",
}
_RETRYABLE = frozenset(
    ("CANCELLED", "DEADLINE_EXCEEDED", "ABORTED", "OUT_OF_RANGE", "UNAVAILABLE", "DATA_LOSS")
)
# About the way, not the message: an expired token, a wrong port or path. Somebody will fix it.
_FIXABLE = frozenset(("UNAUTHENTICATED", "PERMISSION_DENIED", "UNIMPLEMENTED"))
# How grpc-go and grpc-core, grpc-java, and tonic report that a message is too large for them.
_TOO_LARGE = ("larger than max", "exceeds maximum size", "message length too large")
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
    if any(text in details.lower() for text in _TOO_LARGE):
        return TooLarge(message)
    delay_s = retry_delay_s(
        trailers.get("grpc-status-details-bin"), trailers.get("google.rpc.retryinfo-bin")
    )
    if code in _RETRYABLE | _FIXABLE or (code == "RESOURCE_EXHAUSTED" and delay_s is not None):
        return Unavailable(message, None if delay_s is None else min(delay_s, MAX_RETRY_AFTER_S))
    return Refused(message)


def _grpc() -> Any:  # noqa: ANN401 - a module without types
    # Its core writes about connections to the terminal by itself, over whatever stands there.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    import grpc  # noqa: PLC0415 - 190 ms and 33 MB that only this transport needs

    return grpc
