"""Answers as OTLP has them: as protobuf, as JSON, and as trailers of gRPC.

Source: opentelemetry-proto docs/specification.md, OTLP/HTTP Response, OTLP/gRPC Throttling.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any, Literal

import msgspec

from otel_ofu.net.http_service import Refusal

Form = Literal["protobuf", "json"]

PROTOBUF = "application/x-protobuf"
JSON = "application/json"


class GrpcCode(IntEnum):
    """Codes of gRPC, as google.rpc.Status has them. Source: google/rpc/code.proto."""

    INVALID_ARGUMENT = 3
    NOT_FOUND = 5
    RESOURCE_EXHAUSTED = 8
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14
    UNAUTHENTICATED = 16


_CODES = {
    401: GrpcCode.UNAUTHENTICATED,
    404: GrpcCode.NOT_FOUND,
    405: GrpcCode.UNIMPLEMENTED,
    429: GrpcCode.UNAVAILABLE,
    500: GrpcCode.INTERNAL,
    501: GrpcCode.UNIMPLEMENTED,
    503: GrpcCode.UNAVAILABLE,
}


def code_of(refusal: Refusal) -> GrpcCode:
    """What the sender did wrong, unless the status is of another kind."""
    return _CODES.get(refusal.status, GrpcCode.INVALID_ARGUMENT)


def content_type(form: Form) -> str:
    return PROTOBUF if form == "protobuf" else JSON


def success(form: Form, rejected: int, message: str) -> bytes:
    """An ExportMetricsServiceResponse; with `partial_success` if something was rejected."""
    if form == "json":
        partial = {"rejectedDataPoints": str(rejected), "errorMessage": message}
        return msgspec.json.encode({"partialSuccess": partial} if rejected else {})
    if not rejected:
        return b""
    from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (  # noqa: PLC0415 - when first used
        ExportMetricsServiceResponse,
    )

    response = ExportMetricsServiceResponse()
    response.partial_success.rejected_data_points = rejected
    response.partial_success.error_message = _proper(message)
    return response.SerializeToString()


def failure(form: Form, refusal: Refusal) -> bytes:
    """A google.rpc.Status."""
    if form == "json":
        return msgspec.json.encode(
            {"code": int(code_of(refusal)), "message": _proper(refusal.message)}
        )
    return bytes(_status(refusal).SerializeToString())


def trailers(refusal: Refusal) -> list[tuple[str, bytes]]:
    """RetryInfo where the standard has it, and where the Python SDK reads it."""
    if not refusal.retry_s:
        return []
    return [
        ("grpc-status-details-bin", _status(refusal).SerializeToString()),
        ("google.rpc.retryinfo-bin", _retry_info(refusal).SerializeToString()),
    ]


def _status(refusal: Refusal) -> Any:  # noqa: ANN401 - google.rpc has no types
    from google.rpc.status_pb2 import Status  # noqa: PLC0415 - when first used

    status = Status(code=int(code_of(refusal)), message=_proper(refusal.message))
    if refusal.retry_s:
        status.details.add().Pack(_retry_info(refusal))
    return status


def _retry_info(refusal: Refusal) -> Any:  # noqa: ANN401 - as above
    from google.rpc.error_details_pb2 import RetryInfo  # noqa: PLC0415 - when first used

    info = RetryInfo()
    info.retry_delay.seconds = refusal.retry_s
    return info


def _proper(text: str) -> str:
    """Names in a message come from clients and need not be proper Unicode."""
    return text.encode("utf-8", "replace").decode()
