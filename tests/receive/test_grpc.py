"""OTLP over gRPC, as clients see it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceResponse,
)

from otel_ofu.files.settings import Size
from otel_ofu.net.tls import ServerTls
from otel_ofu.receive import Buffer, ListenerSettings, OtlpReceiver, OtlpReceiverSettings
from tests.peers.certs import Certificates
from tests.receive.bodies import body, gauge, gpu, point, seen, ticks
from tests.receive.rig import EXPORT, Options, Rig, receiving
from tests.waiting import HANGS_S, wait_until


@pytest.fixture
def rig() -> Iterator[Rig]:
    with receiving(Options(grpc=True)) as one:
        yield one


def tick() -> bytes:
    (raw,) = ticks([[seen(gpu(1))]])
    return raw


def refused(rig: Rig, raw: bytes, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - grpc has no types
    with pytest.raises(grpc.RpcError) as caught:
        rig.call(raw, *args, **kwargs)
    return caught.value


def test_metrics_get_into_the_store(rig: Rig) -> None:
    assert rig.call(tick()) == b""
    wait_until(rig.stored, "a value in the store")
    assert rig.stored() == [pytest.approx(0.251)]


def test_what_was_rejected_is_said(rig: Rig) -> None:
    raw = body({"hw.id": "GPU-1"}, gauge("ofu.gpu.utilization", point(0.5)), gauge("a", point(1)))
    partial = ExportMetricsServiceResponse.FromString(rig.call(raw)).partial_success
    assert (partial.rejected_data_points, partial.error_message) == (
        1,
        "1 point: unknown metric (a)",
    )


def test_what_cannot_be_read_is_refused_for_good(rig: Rig) -> None:
    error = refused(rig, b"\x0a\x05hel")
    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert "middle" in error.details()
    assert not error.trailing_metadata()


@pytest.mark.parametrize("service", ["logs.v1.LogsService", "trace.v1.TraceService"])
def test_other_signals_are_not_here(rig: Rig, service: str) -> None:
    error = refused(rig, b"", f"/opentelemetry.proto.collector.{service}/Export")
    assert error.code() is grpc.StatusCode.UNIMPLEMENTED
    assert EXPORT in error.details()


def test_a_message_that_is_too_large_is_refused_before_and_after_decompression() -> None:
    with receiving(Options(OtlpReceiverSettings(max_grpc_size=Size(100_000)), grpc=True)) as rig:
        for compression in (grpc.Compression.NoCompression, grpc.Compression.Gzip):
            with (
                rig.channel(compression=compression) as channel,
                pytest.raises(grpc.RpcError) as caught,
            ):
                channel.unary_unary(EXPORT)(bytes(100_001), timeout=HANGS_S)
            assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert rig.call(tick()) == b""


def test_under_load_clients_are_told_to_come_back_soon() -> None:
    """Nothing is decoded here, so whatever comes has to wait."""
    with receiving(
        Options(OtlpReceiverSettings(max_pending_requests=2), grpc=True, started=False)
    ) as rig:
        assert rig.receiver.grpc is not None
        rig.receiver.grpc.start()
        work = rig.receiver._worker
        with rig.channel() as channel:
            export = channel.unary_unary(EXPORT)
            waiting = [export.future(tick(), timeout=HANGS_S) for _ in range(2)]
            wait_until(work._tasks.full, "a full queue")
            error = refused(rig, tick())
            assert error.code() is grpc.StatusCode.UNAVAILABLE
            trailers = dict(error.trailing_metadata())
            alone = RetryInfo.FromString(trailers["google.rpc.retryinfo-bin"])
            assert 1 <= alone.retry_delay.seconds <= 3
            status = Status.FromString(trailers["grpc-status-details-bin"])
            within = RetryInfo()
            assert status.details[0].Unpack(within)
            assert (status.code, within) == (14, alone)
            work.start()
            assert [call.result() for call in waiting] == [b"", b""]


def test_a_token_is_asked_for(tmp_path: Path) -> None:
    secret = tmp_path / "token"
    secret.write_text("secret")
    with receiving(Options(OtlpReceiverSettings(bearer_token_file=str(secret)), grpc=True)) as rig:
        for metadata in ((), (("authorization", "Bearer wrong"),), (("authorization", "secret"),)):
            error = refused(rig, tick(), metadata=metadata)
            assert error.code() is grpc.StatusCode.UNAUTHENTICATED
        error = refused(rig, b"", "/a.B/C")
        assert error.code() is grpc.StatusCode.UNAUTHENTICATED
        assert rig.call(tick(), metadata=(("authorization", "Bearer secret"),)) == b""


def test_tls_and_client_certificates(certificates: Certificates) -> None:
    server, client, stranger = certificates.server, certificates.client, certificates.stranger
    ca = certificates.ca.read_bytes()
    tls = ServerTls(
        cert_file=str(server.cert), key_file=str(server.key), client_ca_file=str(certificates.ca)
    )

    def credentials(*pair: Path) -> Any:  # noqa: ANN401 - grpc has no types
        return grpc.ssl_channel_credentials(ca, *(path.read_bytes() for path in pair))

    with receiving(Options(OtlpReceiverSettings(tls=tls), grpc=True)) as rig:
        assert rig.call(tick(), credentials=credentials(client.key, client.cert)) == b""
        for wrong in (credentials(), credentials(stranger.key, stranger.cert), None):
            error = refused(rig, tick(), credentials=wrong)
            assert error.code() is grpc.StatusCode.UNAVAILABLE
        context = _context(certificates)
        assert rig.post(tick(), context=context)[0] == 200
        with pytest.raises(OSError, match=r"(?i)certificate|ssl|reset|broken pipe|closed"):
            rig.post(tick(), context=_context(certificates, show=False))


def _context(certificates: Certificates, *, show: bool = True) -> Any:  # noqa: ANN401 - ssl
    import ssl  # noqa: PLC0415 - beside the gRPC ones

    context = ssl.create_default_context(cafile=str(certificates.ca))
    if show:
        context.load_cert_chain(certificates.client.cert, certificates.client.key)
    return context


def test_two_agents_do_not_share_a_port(rig: Rig) -> None:
    settings = OtlpReceiverSettings(grpc=ListenerSettings(endpoint=f"127.0.0.1:{rig.grpc_port}"))
    with pytest.raises(ValueError, match=r"cannot listen on 127\.0\.0\.1"):
        OtlpReceiver(settings, Buffer(rig.store))


def test_stopping_waits_for_no_client_and_keeps_what_was_taken() -> None:
    with receiving(Options(grpc=True)) as rig, rig.channel() as channel:
        assert channel.unary_unary(EXPORT)(tick(), timeout=HANGS_S) == b""
        rig.receiver.close()
        assert len(rig.stored()) == 1
