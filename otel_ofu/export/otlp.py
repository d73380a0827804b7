"""OTLP by either protocol: the transport for settings, and whether an endpoint answers.

Enters: settings. Leaves: a `Transport`, or an `EndpointCheck` for people.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from urllib.parse import urlsplit

from otel_ofu.export.otlp_grpc import OtlpGrpcTransport
from otel_ofu.export.otlp_http import OtlpHttpTransport
from otel_ofu.export.settings import OtlpSettings, Signal
from otel_ofu.outbox.batch import Body
from otel_ofu.outbox.outcome import Delivered, Transport

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
