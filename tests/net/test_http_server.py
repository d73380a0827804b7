"""The HTTP server as clients see it, well-behaved and not."""

from __future__ import annotations

import gzip
import resource
import ssl
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from pathlib import Path

import pytest

from otel_ofu.net import http_limits
from otel_ofu.net.http_limits import Connections, HttpLimits
from otel_ofu.net.http_server import HttpServer
from otel_ofu.net.http_service import HttpRequest, HttpResponse, HttpRoute, HttpService, Reply
from otel_ofu.net.settings import Address
from otel_ofu.net.tls import server_context
from tests.net.serving import LOOPBACK, Client, Held, is_ended, read_all, serving
from tests.peers.certs import make_certificates
from tests.waiting import wait_until

GET = b"GET /page HTTP/1.1\r\nHost: a\r\n\r\n"
LAST = b"GET /page HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
POST = b"POST /echo HTTP/1.1\r\nHost: a\r\n"


@pytest.fixture
def client() -> Iterator[Client]:
    with serving() as one:
        yield one


def test_each_path_has_its_handler_and_each_method_too(client: Client) -> None:
    assert client.ask("/page")[::2] == (200, b"a page")
    assert client.ask("/both?x=1")[::2] == (200, b"read")
    assert client.ask("/both", "POST", b"written")[::2] == (200, b"written")


def test_a_head_request_gets_the_headers_of_the_page_and_no_body(client: Client) -> None:
    status, headers, body = client.ask("/page", "HEAD")
    assert (status, headers["content-length"], body) == (200, "6", b"")
    raw = client.raw(GET.replace(b"GET", b"HEAD") + LAST)
    assert raw.count(b"HTTP/1.1 200 OK") == 2
    assert raw.count(b"a page") == 1


@pytest.mark.parametrize(
    ("path", "method", "status", "allow"),
    [
        ("/", "GET", 404, None),
        ("/page/", "GET", 404, None),
        ("/PAGE", "GET", 404, None),
        ("/../page", "GET", 404, None),
        ("/%70age", "GET", 404, None),
        ("//page", "GET", 404, None),
        ("/page", "POST", 405, "GET, HEAD"),
        ("/page", "get", 405, "GET, HEAD"),
        ("/page", "TRACE", 405, "GET, HEAD"),
        ("/echo", "GET", 405, "POST"),
        ("/echo", "HEAD", 405, "POST"),
        ("/both", "PUT", 405, "GET, HEAD, POST"),
    ],
)
def test_what_the_table_does_not_have_is_refused_with_what_it_has(
    client: Client, path: str, method: str, status: int, allow: str | None
) -> None:
    answer = client.ask(path, method)
    assert (answer[0], answer[1].get("allow")) == (status, allow)


def test_a_body_may_be_compressed_and_is_bounded_before_and_after(client: Client) -> None:
    def post(body: bytes, coding: str) -> tuple[int, bytes]:
        return client.ask("/echo", "POST", body, Content_Encoding=coding)[::2]

    assert post(gzip.compress(b"hello"), "GZIP") == (200, b"hello")
    assert post(b"hello", "identity") == (200, b"hello")
    assert post(b"hello", "zstd") == (415, b"Content-Encoding 'zstd'; allowed: gzip, identity\n")
    assert post(b"hello", "gzip")[0] == 400
    assert post(bytes(101), "identity")[0] == 413
    assert post(gzip.compress(bytes(101)), "gzip")[0] == 413
    assert client.ask("/page", "GET", b"x")[0] == 413


def test_a_body_that_grows_in_chunks_is_bounded(client: Client) -> None:
    head = POST + b"Transfer-Encoding: chunked\r\n\r\n"
    assert b"abcd" in client.raw(head.replace(b"Host", b"Connection: close\r\nHost")
                                 + b"2\r\nab\r\n2\r\ncd\r\n0\r\n\r\n")  # fmt: skip
    assert client.raw(head + b"65\r\n" + bytes(101)).startswith(b"HTTP/1.1 413")
    assert client.raw(head + b"0\r\na: \x00\r\n\r\n").startswith(b"HTTP/1.1 400")


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"GET /page HTTP/1.1\r\n\r\n", b"400"),
        (b"GET /page HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", b"400"),
        (b"GET http://b/page HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", b"200"),
        (b"GET http://b/page HTTP/1.1\r\n\r\n", b"400"),
        (b"GET /page HTTP/1.0\r\n\r\n", b"200"),
        (b"OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", b"404"),
        (b"\x16\x03\x01\x02\x00\r\n\r\n", b"400"),
        (b"GET /page HTTP/1.1\r\nA: " + b"a" * 20_000, b"431"),
        (b"GET /" + b"a" * 9_000 + b" HTTP/1.1\r\nHost: a\r\n\r\n", b"400"),
        (b"GET /page HTTP/1.1\r\nHost: a\r\n" + b"A: b\r\n" * 101 + b"\r\n", b"431"),
        (POST + b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\nabc", b"400"),
    ],
)
def test_hostile_requests_are_answered_and_the_connection_ends(
    client: Client, sent: bytes, status: bytes
) -> None:
    assert client.raw(sent).startswith(b"HTTP/1.1 " + status)
    assert client.ask()[0] == 200


def test_a_handler_that_raises_is_a_500_and_the_server_goes_on(client: Client) -> None:
    assert client.ask("/broken")[::2] == (500, b"internal error\n")
    assert client.ask()[0] == 200


def test_a_handler_may_answer_from_another_thread_and_only_once() -> None:
    def twice(_request: HttpRequest, reply: Reply) -> None:
        def answer() -> None:
            reply(HttpResponse(b"first"))
            reply(HttpResponse(b"second"))

        threading.Thread(target=answer).start()

    routes = [HttpRoute("GET", "/page", twice)]
    with serving(routes) as client, closing(client.open(GET + LAST)) as plain:
        raw = read_all(plain)
    assert (raw.count(b"first"), raw.count(b"second")) == (2, 0)


def test_a_token_is_asked_for_on_every_path() -> None:
    with serving(allows=lambda given: given == "Bearer s3cret") as client:
        for path in ("/page", "/nowhere"):
            status, headers, body = client.ask(path)
            assert (status, headers["www-authenticate"]) == (401, "Bearer")
            assert body == b"a bearer token is required\n"
        assert client.ask(Authorization="Bearer s3cret")[0] == 200


@pytest.mark.parametrize("start", [b"", b"GET /page HT", b"\r\n\r\n\r\n", GET[:-2]])
def test_a_head_that_does_not_come_is_not_waited_for(start: bytes) -> None:
    with serving(limits=HttpLimits(head_s=0.2)) as client:
        assert client.raw(start) == b""


def test_a_head_that_comes_byte_by_byte_is_not_waited_for() -> None:
    with serving(limits=HttpLimits(head_s=0.3)) as client, closing(client.open()) as plain:
        ended = threading.Event()

        def drip() -> None:
            with suppress(OSError):
                while not ended.wait(0.02):
                    plain.sendall(b"a")

        thread = threading.Thread(target=drip)
        thread.start()
        with suppress(ConnectionResetError):
            assert plain.recv(10) == b""
        ended.set()
        thread.join()


def test_the_second_head_is_not_waited_for_longer_than_the_first() -> None:
    with serving(limits=HttpLimits(head_s=0.2)) as client, closing(client.open(GET)) as plain:
        assert plain.recv(1000).startswith(b"HTTP/1.1 200 OK")
        plain.sendall(b"GET")
        assert plain.recv(10) == b""


def test_a_body_that_does_not_come_is_refused() -> None:
    with serving(limits=HttpLimits(body_s=0.2)) as client:
        assert client.raw(POST + b"Content-Length: 9\r\n\r\nabc").startswith(b"HTTP/1.1 408")


def test_a_client_that_does_not_take_its_answers_gets_no_more_of_them() -> None:
    made: list[int] = []

    def large(_request: HttpRequest, reply: Reply) -> None:
        made.append(1)
        reply(HttpResponse(bytes(2**20)))

    routes = [HttpRoute("GET", "/page", large)]
    limits = HttpLimits(write_s=0.2)
    with serving(routes, limits) as client, closing(client.open(GET * 1000)) as plain:
        wait_until(lambda: made and not client.server.connections, "the end of patience")
        assert len(made) < 30  # what the kernel and one buffer of ours hold
        with suppress(ConnectionResetError):
            assert len(read_all(plain)) < 30 * 2**20


def test_a_slow_client_gets_all_of_its_answers() -> None:
    routes = [HttpRoute("GET", "/page", lambda _request, reply: reply(HttpResponse(bytes(2**20))))]
    with serving(routes) as client, closing(client.open(GET * 9 + LAST)) as plain:
        assert len(read_all(plain)) > 10 * 2**20


def test_silent_connections_however_many_keep_nobody_out() -> None:
    with serving(limits=HttpLimits(connections=8)) as client, ExitStack() as stack:
        slow = [stack.enter_context(client.open(b"G")) for _ in range(40)]
        assert client.ask()[0] == 200
        wait_until(lambda: is_ended(slow[0]), "the oldest to make way")
        assert client.server.connections <= 8


def test_the_idle_one_makes_way_and_not_the_one_that_is_served() -> None:
    held = Held()
    routes = [HttpRoute("GET", "/held", held.handle), *serving_page()]
    with serving(routes, HttpLimits(connections=2)) as client, ExitStack() as stack:
        served = stack.enter_context(client.open(GET.replace(b"page", b"held")))
        wait_until(lambda: not held.replies.empty(), "the request")
        idle = stack.enter_context(client.open(GET))
        assert idle.recv(1000).startswith(b"HTTP/1.1 200 OK")
        assert client.ask()[0] == 200
        wait_until(lambda: is_ended(idle), "the idle one to make way")
        held.release()
        assert b"released" in served.recv(1000)


def test_a_connection_too_many_is_told_so_while_all_are_served() -> None:
    held = Held()
    routes = [HttpRoute("GET", "/page", held.handle)]
    with serving(routes, HttpLimits(connections=2)) as client, ExitStack() as stack:
        served = [stack.enter_context(client.open(GET)) for _ in range(2)]
        wait_until(lambda: held.replies.qsize() == 2, "the requests")
        for _ in range(5):
            assert client.raw(b"").startswith(b"HTTP/1.1 429 Too Many Requests")
        for plain in served:
            held.release()
            assert b"released" in plain.recv(1000)


def serving_page() -> list[HttpRoute]:
    return [HttpRoute("GET", "/page", lambda _request, reply: reply(HttpResponse(b"a page")))]


def test_tls_is_served_and_silent_handshakes_hold_up_nobody(tmp_path: Path) -> None:
    made = make_certificates(tmp_path)
    context = server_context(str(made.server.cert), str(made.server.key))
    trusting = ssl.create_default_context(cafile=str(made.ca))
    with (
        serving(limits=HttpLimits(connections=4), context=context) as client,
        ExitStack() as stack,
    ):
        slow = [stack.enter_context(client.open()) for _ in range(20)]
        assert client.ask(tls=trusting)[0] == 200
        wait_until(lambda: is_ended(slow[0]), "the oldest to make way")


def test_one_listener_cannot_take_all_the_files_of_the_process() -> None:
    """Two floods of the default limit would: no file could be opened, no page answered."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert http_limits.open_files() in (soft, 2**20)
    shared: Connections[SomeClient] = Connections(
        HttpService([]), HttpLimits(connections=10**9), None
    )
    assert shared.most <= http_limits.open_files() // 2


class SomeClient:
    def abort(self) -> None: ...


def test_stopping_waits_for_no_client() -> None:
    held = Held()
    routes = [HttpRoute("GET", "/page", held.handle)]
    with serving(routes) as client, ExitStack() as stack:
        idle = [stack.enter_context(client.open()) for _ in range(20)]
        half = stack.enter_context(client.open(GET[:9]))
        served = stack.enter_context(client.open(GET))
        wait_until(lambda: not held.replies.empty(), "the request")
        client.server.close()
        assert read_all(served).startswith(b"HTTP/1.1 503")
        assert all(is_ended(plain) for plain in [*idle, half])
        held.release()


def test_a_port_that_is_taken_is_one_clear_error(client: Client) -> None:
    taken = Address("127.0.0.1", client.server.port)
    with pytest.raises(ValueError, match=rf"cannot listen on {taken}: .*; choose another port"):
        HttpServer(taken, HttpService([]), HttpLimits())
    with pytest.raises(ValueError, match=r"cannot listen on no-such-host\.invalid:1"):
        HttpServer(Address("no-such-host.invalid", 1), HttpService([]), HttpLimits())


def test_a_server_that_never_started_is_closed() -> None:
    server = HttpServer(LOOPBACK, HttpService([]), HttpLimits())
    server.close()
    HttpServer(Address("127.0.0.1", server.port), HttpService([]), HttpLimits()).close()
