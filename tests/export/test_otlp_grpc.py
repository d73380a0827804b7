"""Each status of a gRPC server means what OTLP says."""

from __future__ import annotations

import gzip
import socket
import threading

import grpc
import pytest
from google.protobuf.any_pb2 import Any
from google.protobuf.duration_pb2 import Duration
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import (
    ExportLogsPartialSuccess,
    ExportLogsServiceResponse,
)
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsPartialSuccess,
    ExportMetricsServiceResponse,
)

from otel_ofu.export.otlp import OtlpGrpcTransport, check, judged
from otel_ofu.export.settings import OtlpOptions, OtlpSettings, resolve
from otel_ofu.outbox.batch import Body
from otel_ofu.outbox.outcome import Delivered, Outcome, Refused, TooLarge, Unavailable
from tests.export.samples import body
from tests.export.servers import Answer, grpc_server
from tests.peers.certs import Certificates
from tests.waiting import HANGS_S


def settings(port: int, scheme: str = "http", **options: object) -> OtlpSettings:
    known = OtlpOptions(protocol="grpc", endpoint=f"{scheme}://127.0.0.1:{port}", **options)  # type: ignore[arg-type]
    return resolve(known, "metrics")


def sent(known: OtlpSettings, sending: Body | None = None, limit_s: float = HANGS_S) -> Outcome:
    transport = OtlpGrpcTransport(known)
    try:
        return transport.send(sending or body(), limit_s)
    finally:
        transport.close()


def status(code: grpc.StatusCode, details: str = "", **trailers: bytes) -> Answer:
    def answer(context: grpc.ServicerContext) -> bytes:
        context.set_trailing_metadata(tuple(trailers.items()))
        context.abort(code, details)
        raise AssertionError

    return answer


def retry_info(seconds: int) -> RetryInfo:
    return RetryInfo(retry_delay=Duration(seconds=seconds, nanos=500_000_000))


def in_details(info: RetryInfo) -> bytes:
    packed = Any()
    packed.Pack(info)
    return bytes(Status(code=14, details=[packed]).SerializeToString())


@pytest.mark.parametrize("compression", ["gzip", "none"])
def test_a_request_arrives_as_it_was_made_with_headers(compression: str) -> None:
    with grpc_server() as server:
        known = settings(server.port, compression=compression, headers={"Api-Key": "s3cret"})
        assert sent(known) == Delivered()
    (got,) = server.got
    assert got.path == "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export"
    assert got.raw == body().raw()
    assert got.headers["api-key"] == "s3cret"


def test_a_partial_success_is_read_for_each_signal() -> None:
    metrics = ExportMetricsServiceResponse(
        partial_success=ExportMetricsPartialSuccess(rejected_data_points=2, error_message="old")
    )
    logs = ExportLogsServiceResponse(
        partial_success=ExportLogsPartialSuccess(rejected_log_records=1)
    )
    with grpc_server(
        lambda _: metrics.SerializeToString(), lambda _: logs.SerializeToString()
    ) as server:
        assert sent(settings(server.port)) == Delivered(2, "old")
        empty = Body("logs", gzip.compress(b""), 1)
        assert sent(settings(server.port), empty) == Delivered(1)
    assert server.got[1].path.endswith("logs.v1.LogsService/Export")


def test_retry_info_is_honoured_wherever_it_stands() -> None:
    busy = grpc.StatusCode.UNAVAILABLE
    with grpc_server(
        status(busy, "later", **{"grpc-status-details-bin": in_details(retry_info(3))}),
        status(busy, "later", **{"google.rpc.retryinfo-bin": retry_info(4).SerializeToString()}),
        status(busy, "later"),
    ) as server:
        found = [sent(settings(server.port)) for _ in range(3)]
    message = "gRPC UNAVAILABLE: later"
    assert found == [Unavailable(message, 3.5), Unavailable(message, 4.5), Unavailable(message)]


RETRYABLE = {
    "CANCELLED", "DEADLINE_EXCEEDED", "ABORTED", "OUT_OF_RANGE", "UNAVAILABLE", "DATA_LOSS",
}  # fmt: skip
MENDABLE = {"UNAUTHENTICATED", "PERMISSION_DENIED", "UNIMPLEMENTED"}


@pytest.mark.parametrize("code", [c.name for c in grpc.StatusCode if c is not grpc.StatusCode.OK])
def test_the_table_of_the_specification_and_what_somebody_will_mend(code: str) -> None:
    expected = Unavailable if code in RETRYABLE | MENDABLE else Refused
    assert judged(code, "why", {}) == expected(f"gRPC {code}: why")


def test_exhausted_is_for_later_only_with_a_retry_info() -> None:
    delay = {"google.rpc.retryinfo-bin": retry_info(1).SerializeToString()}
    assert judged("RESOURCE_EXHAUSTED", "", {}) == Refused("gRPC RESOURCE_EXHAUSTED")
    assert judged("RESOURCE_EXHAUSTED", "", delay) == Unavailable("gRPC RESOURCE_EXHAUSTED", 1.5)


def test_a_long_or_broken_retry_info_does_not_stop_the_sender() -> None:
    long = {"google.rpc.retryinfo-bin": retry_info(86_400).SerializeToString()}
    assert judged("UNAVAILABLE", "", long) == Unavailable("gRPC UNAVAILABLE", 300.0)
    assert judged("UNAVAILABLE", "", {"grpc-status-details-bin": b"\xff"}) == Unavailable(
        "gRPC UNAVAILABLE"
    )


@pytest.mark.parametrize(
    ("code", "details"),
    [
        ("RESOURCE_EXHAUSTED", "grpc: received message larger than max (5 vs. 4)"),
        ("RESOURCE_EXHAUSTED", "gRPC message exceeds maximum size 4194304: 5000000"),
        ("OUT_OF_RANGE", "Error, decoded message length too large: found 5, the limit is: 4"),
    ],
)
def test_too_large_is_recognised_in_the_words_of_each_server(code: str, details: str) -> None:
    assert isinstance(judged(code, details, {}), TooLarge)


def test_a_real_server_with_a_smaller_limit_gives_too_large() -> None:
    with grpc_server() as server:
        assert isinstance(sent(settings(server.port), body(gpus=100)), TooLarge)


def test_nobody_listening_is_for_later() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    found = sent(settings(port))
    assert isinstance(found, Unavailable)
    assert "UNAVAILABLE" in found.message


def test_a_slow_server_is_left_after_the_limit_and_the_next_call_is_on_a_new_channel() -> None:
    gate = threading.Event()

    def slow(context: grpc.ServicerContext) -> bytes:
        gate.wait(HANGS_S)
        return b""

    with grpc_server(slow) as server:
        transport = OtlpGrpcTransport(settings(server.port))
        found = transport.send(body(), 0.2)
        assert isinstance(found, Unavailable)
        assert found.message.startswith("gRPC DEADLINE_EXCEEDED")
        assert transport._channel is None
        gate.set()
        assert transport.send(body(), HANGS_S) == Delivered()
        transport.close()
        transport.close()


def test_a_header_that_the_server_repeats_is_not_shown() -> None:
    with grpc_server(status(grpc.StatusCode.UNAUTHENTICATED, "bad key s3cret")) as server:
        found = sent(settings(server.port, headers={"api-key": "s3cret"}))
    assert found == Unavailable("gRPC UNAUTHENTICATED: bad key ***")


def test_tls_with_a_client_certificate(certificates: Certificates) -> None:
    pair = (certificates.server.key.read_bytes(), certificates.server.cert.read_bytes())
    credentials = grpc.ssl_server_credentials(
        [pair], certificates.ca.read_bytes(), require_client_auth=True
    )
    files = {
        "ca_file": str(certificates.ca),
        "cert_file": str(certificates.client.cert),
        "key_file": str(certificates.client.key),
    }
    with grpc_server(credentials=credentials) as server:
        assert sent(settings(server.port, "https", **files)) == Delivered()
        assert isinstance(sent(settings(server.port, "https")), Unavailable)
        assert check(settings(server.port, "https", **files)).problem == ""
    assert len(server.got) == 2
