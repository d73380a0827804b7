"""Each answer of an HTTP server means what OTLP says, and a broken one is no success."""

from __future__ import annotations

import socket
import ssl
import threading
from email.utils import formatdate
from pathlib import Path

import pytest
from google.rpc.status_pb2 import Status
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsPartialSuccess,
    ExportMetricsServiceResponse,
)

from otel_ofu.export.otlp import OtlpHttpTransport, check
from otel_ofu.export.settings import OtlpOptions, OtlpSettings, resolve
from otel_ofu.outbox.batch import Body
from otel_ofu.outbox.outcome import (
    Delivered,
    Outcome,
    Refused,
    TooLarge,
    Unavailable,
    retry_after_s,
)
from tests.export.samples import body
from tests.export.servers import Reply, http_server
from tests.peers.certs import Certificates
from tests.waiting import HANGS_S

PLAIN = {"Content-Type": "text/plain"}


def settings(url: str, **options: object) -> OtlpSettings:
    return resolve(OtlpOptions(endpoint=url, **options), "metrics")  # type: ignore[arg-type]


def sent(
    transport: OtlpHttpTransport, sending: Body | None = None, limit_s: float = HANGS_S
) -> Outcome:
    try:
        return transport.send(sending or body(), limit_s)
    finally:
        transport.close()


def outcome(reply: Reply, **options: object) -> Outcome:
    with http_server(reply) as server:
        return sent(OtlpHttpTransport(settings(server.url, **options)))


def test_a_request_arrives_as_it_was_made_with_headers_and_gzip() -> None:
    with http_server() as server:
        transport = OtlpHttpTransport(settings(server.url, headers={"Api-Key": "s3cret"}))
        assert sent(transport) == Delivered()
    (got,) = server.got
    assert got.path == "/v1/metrics"
    assert got.raw == body().raw()
    assert got.headers["Content-Type"] == "application/x-protobuf"
    assert got.headers["Content-Encoding"] == "gzip"
    assert got.headers["api-key"] == "s3cret"


def test_without_compression_the_plain_bytes_arrive() -> None:
    with http_server() as server:
        sent(OtlpHttpTransport(settings(server.url, compression="none")))
    assert "Content-Encoding" not in server.got[0].headers
    assert server.got[0].raw == body().raw()


def test_a_netrc_file_does_not_replace_the_configured_credentials(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".netrc").write_text("machine 127.0.0.1 login other password other\n")
    (tmp_path / ".netrc").chmod(0o600)
    monkeypatch.setenv("NETRC", str(tmp_path / ".netrc"))
    with http_server() as server:
        sent(OtlpHttpTransport(settings(server.url, headers={"Authorization": "Bearer mine"})))
    assert server.got[0].headers["authorization"] == "Bearer mine"


def test_one_connection_serves_many_requests() -> None:
    with http_server() as server:
        transport = OtlpHttpTransport(settings(server.url))
        for _ in range(3):
            assert transport.send(body(), 5.0) == Delivered()
        transport.close()
        transport.close()
        assert sent(transport) == Delivered()


def test_a_partial_success_is_read() -> None:
    partial = ExportMetricsPartialSuccess(rejected_data_points=3, error_message="too old")
    answer = ExportMetricsServiceResponse(partial_success=partial).SerializeToString()
    assert outcome(Reply(body=answer)) == Delivered(3, "too old")


@pytest.mark.parametrize("answer", [b"\xff\xff\xff", b"{}", b""])
def test_a_success_that_says_nothing_readable_is_a_success(answer: bytes) -> None:
    assert outcome(Reply(body=answer)) == Delivered()
    assert outcome(Reply(status=204)) == Delivered()


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_not_followed_and_no_success(status: int) -> None:
    with http_server(Reply(status, headers={"Location": "/login?token=x"})) as server:
        found = sent(OtlpHttpTransport(settings(server.url)))
    message = f"HTTP {status}, a redirect to /login; not followed"
    assert found == Unavailable(message)
    assert len(server.got) == 1


def test_a_web_page_is_no_success() -> None:
    found = outcome(Reply(200, b"<html>sign in", {"Content-Type": "text/html; charset=utf-8"}))
    assert found == Unavailable("HTTP 200 with a web page, not an answer of OTLP")


@pytest.mark.parametrize("status", [401, 403, 404, 405, 407])
def test_credentials_and_paths_are_mended_so_the_data_are_kept(status: int) -> None:
    found = outcome(Reply(status, b"because\nof this", PLAIN))
    assert isinstance(found, Unavailable)
    assert found.message.startswith(f"HTTP {status} ")
    assert found.message.endswith(": because of this")


@pytest.mark.parametrize("status", [400, 415, 422, 500, 501])
def test_other_errors_are_final(status: int) -> None:
    found = outcome(Reply(status, b"because\nof this", PLAIN))
    assert isinstance(found, Refused)
    assert found.message.startswith(f"HTTP {status} ")
    assert found.message.endswith(": because of this")


@pytest.mark.parametrize("echoed", ["s3cret", "Bearer s3cret"])
def test_the_words_of_a_status_message_are_told_but_never_a_header(echoed: str) -> None:
    answer = Status(message=f"no such key: {echoed}").SerializeToString()
    headers = {"authorization": "Bearer s3cret", "tenant": "4"}
    found = outcome(Reply(400, answer), headers=headers)
    assert found == Refused("HTTP 400 Bad Request: no such key: ***")


def test_a_page_of_html_is_not_repeated_and_long_text_is_cut() -> None:
    assert outcome(Reply(404, b"<html>" * 99, {"Content-Type": "text/html"})) == Unavailable(
        "HTTP 404 Not Found"
    )
    long = outcome(Reply(400, b"x" * 1_000_000, PLAIN))
    assert isinstance(long, Refused)
    assert len(long.message) == 200


def test_an_answer_without_an_end_is_not_read_to_its_end() -> None:
    with http_server(Reply(400, b"x" * 65536, PLAIN, repeat=1000)) as server:
        assert isinstance(sent(OtlpHttpTransport(settings(server.url))), Refused)
    assert server.written < 60_000_000


def test_413_asks_for_smaller_pieces() -> None:
    assert isinstance(outcome(Reply(413, b"", PLAIN)), TooLarge)


@pytest.mark.parametrize("status", [429, 502, 503, 504])
def test_a_busy_server_is_tried_again_when_it_says(status: int) -> None:
    told = outcome(Reply(status, b"", {"Retry-After": "7"}))
    assert isinstance(told, Unavailable)
    assert told.after_s == 7.0
    silent = outcome(Reply(status, b"", {}))
    assert isinstance(silent, Unavailable)
    assert silent.after_s is None


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("0", 0.0),
        ("3", 3.0),
        ("99999999999999999999", 300.0),
        (formatdate(1_000_060, usegmt=True), 60.0),
        (formatdate(999_000, usegmt=True), 0.0),
        (formatdate(9_999_999, usegmt=True), 300.0),
        ("soon", None),
        ("-5", None),
        ("1.5", None),
        ("", None),
        (None, None),
    ],
)
def test_retry_after_is_seconds_or_a_date_and_bounded(
    value: str | None, seconds: float | None
) -> None:
    assert retry_after_s(value, now_s=1_000_000.0) == seconds


def test_a_connection_that_breaks_in_the_middle_is_tried_again() -> None:
    found = outcome(Reply(reset=True))
    assert isinstance(found, Unavailable)


def test_nobody_listening_is_told_in_plain_words() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    found = sent(OtlpHttpTransport(settings(f"http://127.0.0.1:{port}/?key=s3cret")))
    assert found == Unavailable("Connection refused")


def test_a_slow_server_is_left_after_the_limit() -> None:
    with http_server(Reply(wait=threading.Event())) as server:
        found = sent(OtlpHttpTransport(settings(server.url)), limit_s=0.2)
        assert server.replies == []
    assert found == Unavailable("no answer within 0.2 s")


def mutual(certificates: Certificates) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(certificates.ca))
    context.load_cert_chain(certificates.server.cert, certificates.server.key)
    context.verify_mode = ssl.CERT_REQUIRED
    return context


def test_tls_with_a_client_certificate(
    certificates: Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(certificates.stranger.cert))
    with http_server(tls=mutual(certificates)) as server:
        url = f"https://127.0.0.1:{server.port}"
        files = {
            "ca_file": str(certificates.ca),
            "cert_file": str(certificates.client.cert),
            "key_file": str(certificates.client.key),
        }
        assert sent(OtlpHttpTransport(settings(url, **files))) == Delivered()
        monkeypatch.delenv("REQUESTS_CA_BUNDLE")
        untrusted = sent(OtlpHttpTransport(settings(url)))
        assert isinstance(untrusted, Unavailable)
        assert untrusted.message.startswith("TLS: the server's certificate is not trusted: ")
    assert len(server.got) == 1


def test_check_says_whether_the_endpoint_takes_an_empty_request() -> None:
    with http_server(Reply(), Reply(404, b"", {})) as server:
        good = check(settings(server.url))
        bad = check(settings(server.url))
    assert (good.endpoint, good.problem) == (f"{server.url}/v1/metrics", "")
    assert good.elapsed_s > 0
    assert server.got[0].raw == b""
    assert bad.problem == "HTTP 404 Not Found"


def test_check_names_the_usual_mix_up_of_ports() -> None:
    with socket.create_server(("127.0.0.2", 0)):
        pass
    answer = check(settings("http://127.0.0.2:4317"))
    assert answer.problem.endswith("(port 4317 is usually gRPC: protocol grpc)")
