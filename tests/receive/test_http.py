"""OTLP over HTTP, as clients see it."""

from __future__ import annotations

import gzip
import json
import random
import zlib
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from google.rpc.status_pb2 import Status
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceResponse,
)

from otel_ofu.files.settings import Size
from otel_ofu.net.http_limits import HttpLimits
from otel_ofu.receive import Buffer, ListenerSettings, OtlpReceiver, OtlpReceiverSettings
from tests.receive.bodies import as_json, body, gauge, gpu, point, seen, ticks
from tests.receive.rig import PROTOBUF, Options, Rig, receiving
from tests.waiting import wait_until

JSON = {"Content-Type": "application/json"}
HEAD = b"POST /v1/metrics HTTP/1.1\r\nHost: a\r\nContent-Type: application/x-protobuf\r\n"


@pytest.fixture
def rig() -> Iterator[Rig]:
    with receiving() as one:
        yield one


def tick(number: int = 1, gpus: int = 2) -> bytes:
    (raw,) = ticks([[seen(gpu(n), number) for n in range(gpus)]])
    return raw


def junk_gauge(value: float = 0.5) -> bytes:
    return body({"hw.id": "GPU-1"}, gauge("ofu.gpu.utilization", point(value)))


def test_metrics_get_into_the_store(rig: Rig) -> None:
    assert rig.post(tick())[::2] == (200, b"")
    wait_until(rig.stored, "values in the store")
    assert rig.stored() == [pytest.approx(0.251)] * 2
    assert {e.id for e in rig.store.entities("gpu")} == {gpu(0).id, gpu(1).id}


@pytest.mark.parametrize("gzipped", [False, True])
@pytest.mark.parametrize("form", ["protobuf", "json"])
def test_the_answer_is_of_the_form_of_the_question(rig: Rig, form: str, *, gzipped: bool) -> None:
    raw = tick() if form == "protobuf" else as_json(tick())
    headers = {
        "Content-Type": PROTOBUF["Content-Type"] if form == "protobuf" else "application/json; q=1"
    }
    if gzipped:
        raw, headers = gzip.compress(raw), {**headers, "Content-Encoding": "gzip"}
    status, answered, content = rig.post(raw, headers)
    assert status == 200
    assert answered["content-type"] == headers["Content-Type"].partition(";")[0]
    assert content == (b"" if form == "protobuf" else b"{}")
    wait_until(rig.stored, "values in the store")


def test_what_was_rejected_is_said_in_both_forms(rig: Rig) -> None:
    raw = body({"hw.id": "GPU-1"}, gauge("ofu.gpu.utilization", point(0.5)), gauge("a", point(1)))
    status, _, content = rig.post(raw)
    partial = ExportMetricsServiceResponse.FromString(content).partial_success
    assert (status, partial.rejected_data_points) == (200, 1)
    assert partial.error_message == "1 point: unknown metric (a)"
    assert json.loads(rig.post(as_json(raw), JSON)[2]) == {
        "partialSuccess": {"rejectedDataPoints": "1", "errorMessage": "1 point: unknown metric (a)"}
    }
    counts = rig.receiver.counts
    assert counts.points["rejected"] == 2
    assert counts.reasons == {"unknown metric": 2}
    assert counts.unknown_names == {"a": 2}


def test_an_empty_request_is_a_success(rig: Rig) -> None:
    assert rig.post(b"")[::2] == (200, b"")
    assert rig.post(b"{}", JSON)[::2] == (200, b"{}")


@pytest.mark.parametrize(
    ("raw", "headers", "status", "message"),
    [
        (b"\x0a\x05hel", PROTOBUF, 400, "in the middle"),
        (b"hello", JSON, 400, "JSON"),
        (b"hello", {}, 415, "application/x-protobuf, application/json"),
        (b"hello", {"Content-Type": "text/plain"}, 415, "text/plain"),
        (b"hello", {**PROTOBUF, "Content-Encoding": "zstd"}, 415, "zstd"),
        (b"hello", {**PROTOBUF, "Content-Encoding": "gzip"}, 400, "not gzip"),
        (
            gzip.compress(b"x" * 99, mtime=0)[:-9],
            {**PROTOBUF, "Content-Encoding": "gzip"},
            400,
            "middle",
        ),
    ],
)
def test_what_cannot_be_read_is_refused_for_good(
    rig: Rig, raw: bytes, headers: dict[str, str], status: int, message: str
) -> None:
    answered = rig.post(raw, headers)
    assert answered[0] == status
    assert "retry-after" not in answered[1]
    if answered[1]["content-type"] == "application/json":
        told = json.loads(answered[2])["message"]
    else:
        told = Status.FromString(answered[2]).message
    assert message in told


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("POST", "/v1/logs", 404),
        ("POST", "/v1/traces", 404),
        ("POST", "/", 404),
        ("GET", "/v1/metrics", 405),
        ("PUT", "/v1/metrics", 405),
    ],
)
def test_other_places_and_methods_are_told_apart(
    rig: Rig, method: str, path: str, status: int
) -> None:
    answered = rig.post(b"", PROTOBUF, path=path, method=method)
    assert answered[0] == status
    assert Status.FromString(answered[2]).message


def test_a_body_may_come_in_chunks(rig: Rig) -> None:
    raw = tick()
    pieces = (raw[i : i + 100] for i in range(0, len(raw), 100))
    assert rig.post(pieces, {**PROTOBUF, "Transfer-Encoding": "chunked"})[0] == 200
    wait_until(rig.stored, "values in the store")


def test_many_requests_go_over_one_connection(rig: Rig) -> None:
    with closing(rig.connect()) as connection:
        for number in range(1, 51):
            assert rig.ask(connection, junk_gauge(number / 100))[0] == 200
    wait_until(lambda: rig.stored() == [0.5], "the last of them")


def test_requests_may_be_sent_before_the_answers_come(rig: Rig) -> None:
    raw = tick()
    head = HEAD
    one = head + b"Content-Length: %d\r\n\r\n%s" % (len(raw), raw)
    last = head + b"Connection: close\r\nContent-Length: %d\r\n\r\n%s" % (len(raw), raw)
    assert rig.raw(one * 5 + last).count(b"HTTP/1.1 200 OK") == 6


def test_a_client_that_asks_first_is_told_to_go_on(rig: Rig) -> None:
    raw = tick()
    head = HEAD
    head += b"Expect: 100-continue\r\n"
    with closing(rig.open()) as plain:
        plain.sendall(head + b"Connection: close\r\nContent-Length: %d\r\n\r\n" % len(raw))
        assert plain.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        plain.sendall(raw)
        assert plain.recv(1000).startswith(b"HTTP/1.1 200 OK")


def test_a_body_that_is_too_large_is_refused_before_and_after_decompression() -> None:
    with receiving(Options(OtlpReceiverSettings(max_http_size=Size(100_000)))) as rig:
        assert rig.post(bytes(100_001))[0] == 413
        bomb = gzip.compress(bytes(50_000_000))
        assert len(bomb) < 100_000
        assert rig.post(bomb, {**PROTOBUF, "Content-Encoding": "gzip"})[0] == 413
        twice = gzip.compress(bytes(60_000)) * 2
        assert rig.post(twice, {**PROTOBUF, "Content-Encoding": "gzip"})[0] == 413
        chunks = (bytes(10_000) for _ in range(11))
        assert rig.post(chunks, {**PROTOBUF, "Transfer-Encoding": "chunked"})[0] == 413
        assert rig.post(tick())[0] == 200


def test_a_bomb_costs_no_more_memory_than_the_limit() -> None:
    compressor = zlib.compressobj(9, wbits=31)
    bomb = b"".join(compressor.compress(bytes(2**20)) for _ in range(64)) + compressor.flush()
    with receiving(Options(OtlpReceiverSettings(max_http_size=Size(2**20)))) as rig:
        before = _peak_kib()
        assert rig.post(bomb, {**PROTOBUF, "Content-Encoding": "gzip"})[0] == 413
        assert _peak_kib() - before < 30_000


def _peak_kib() -> int:
    status = Path("/proc/self/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1])


def test_under_load_clients_are_told_to_come_back_soon() -> None:
    """Nothing is decoded here, so whatever comes has to wait."""
    with receiving(Options(OtlpReceiverSettings(max_pending_requests=2), started=False)) as rig:
        assert rig.receiver.http is not None
        rig.receiver.http.start()
        waiting = [rig.open() for _ in range(2)]
        raw = tick()
        head = HEAD
        for plain in waiting:
            plain.sendall(head + b"Content-Length: %d\r\n\r\n%s" % (len(raw), raw))
        work = rig.receiver._worker
        wait_until(work._tasks.full, "a full queue")
        status, headers, content = rig.post(raw)
        assert status == 429
        assert 1 <= int(headers["retry-after"]) <= 3
        told = Status.FromString(content)
        assert (told.code, told.message) == (14, "busy; retry later")
        assert [detail.TypeName() for detail in told.details] == ["google.rpc.RetryInfo"]
        assert rig.receiver.counts.points["busy"] == 1
        work.start()
        for plain in waiting:
            assert plain.recv(1000).startswith(b"HTTP/1.1 200 OK")
            plain.close()
        assert rig.post(raw)[0] == 200


def test_bodies_under_way_have_a_common_limit() -> None:
    with receiving(Options(OtlpReceiverSettings(max_pending_size=Size(100_000)))) as rig:
        with closing(rig.open()) as slow:
            head = HEAD
            slow.sendall(head + b"Content-Length: 90001\r\n\r\n" + bytes(90_000))
            budget = rig.receiver.budget
            wait_until(lambda: budget.left == 10_000, "the bytes to arrive")
            assert rig.post(bytes(20_000))[0] == 429
            assert rig.post(junk_gauge())[0] == 200
        wait_until(lambda: budget.left == 100_000, "the bytes to be given back")


def test_a_body_that_does_not_come_is_refused() -> None:
    with receiving(Options(deadlines=HttpLimits(body_s=0.2))) as rig:
        head = HEAD
        assert rig.raw(head + b"Content-Length: 10\r\n\r\nabc").startswith(b"HTTP/1.1 408")


def test_a_token_is_asked_for_and_may_change(tmp_path: Path) -> None:
    secret = tmp_path / "token"
    secret.write_text("first\n")
    with receiving(Options(OtlpReceiverSettings(bearer_token_file=str(secret)))) as rig:

        def status(*values: str) -> int:
            headers = dict(zip(["Authorization"], values, strict=False))
            return rig.post(junk_gauge(), {**PROTOBUF, **headers})[0]

        assert status("Bearer first") == status("bearer  first") == 200
        wrong = ["", "first", "Bearer", "Bearer second", "Basic first", "Bearer f\u00efrst"]
        assert [status(), *map(status, wrong)] == [401] * 7
        assert rig.post(junk_gauge())[1]["www-authenticate"] == "Bearer"
        secret.write_text("second, longer\n")
        assert [status("Bearer first"), status("Bearer second, longer")] == [401, 200]
        secret.unlink()
        assert status("Bearer second, longer") == 200


def test_stopping_keeps_what_was_taken() -> None:
    with receiving() as rig:
        assert rig.post(tick())[0] == 200
        rig.receiver.close()
        assert len(rig.stored()) == 2


def test_what_is_refused_before_its_head_is_read_is_told_in_json(rig: Rig) -> None:
    raw = rig.raw(b"POST /v1/metrics HTTP/1.1\r\n\r\n")
    assert raw.startswith(b"HTTP/1.1 400")
    assert raw.endswith(b'{"code":3,"message":"no Host header"}')


def test_a_port_that_is_taken_is_told_in_one_line() -> None:
    with receiving() as rig:
        settings = OtlpReceiverSettings(http=ListenerSettings(endpoint=f"127.0.0.1:{rig.port}"))
        with pytest.raises(
            ValueError, match=r"cannot listen on 127\.0\.0\.1:\d+: .*choose another"
        ):
            OtlpReceiver(settings, Buffer(rig.store))


def test_a_thousand_junk_requests_leave_it_well(rig: Rig) -> None:
    rng = random.Random(7)
    raw = tick()
    with closing(rig.connect()) as connection:
        for _ in range(1000):
            broken = bytearray(raw)
            for _ in range(rng.randint(1, 5)):
                broken[rng.randrange(len(raw))] = rng.randrange(256)
            cut = rng.choice([len(raw), rng.randrange(len(raw))])
            headers = rng.choice([PROTOBUF, JSON])
            assert rig.ask(connection, bytes(broken[:cut]), headers)[0] in (200, 400)
        assert rig.ask(connection, tick(2))[0] == 200
    assert rig.receiver.counts.points.get("failed", 0) == 0
