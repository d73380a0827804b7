"""A request ends in time, whatever the server does, and the next one starts afresh.

The slow answers never end by themselves: that a request ends at all is what is tested.
"""

from __future__ import annotations

import gzip
import re
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from itertools import chain, repeat
from pathlib import Path

import pytest

from otel_ofu.net.connecting import proxy_for
from otel_ofu.net.http_client import HttpClient, HttpError, HttpFailure, Response
from otel_ofu.net.tls import TlsFiles
from tests.peers.certs import make_certificates
from tests.waiting import HANGS_S, wait_until

GOOD = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
LIMIT_S = 0.4
# Each pause is well within the limit, as is each read; all of them together are not.
PAUSE_S = 0.05

Says = Callable[[], Iterator[bytes]]


@dataclass
class Server:
    """Reads a request, then sends the pieces of the next script; one connection per thread.

    `closes`: without reading all of a request; `upgrade`: TLS after the first script.
    """

    scripts: list[Says]
    pause_s: float = PAUSE_S
    tls: ssl.SSLContext | None = None
    upgrade: ssl.SSLContext | None = None
    closes: bool = False
    connections: int = 0
    requests: list[bytes] = field(default_factory=list)
    kept: list[socket.socket] = field(default_factory=list)
    ended: threading.Event = field(default_factory=threading.Event)
    listening: socket.socket = field(default_factory=lambda: socket.create_server(("127.0.0.1", 0)))

    @property
    def place(self) -> str:
        return f"127.0.0.1:{self.listening.getsockname()[1]}"

    def accept(self) -> None:
        with ExitStack() as stack:
            while True:
                try:
                    sock, _ = self.listening.accept()
                except OSError:
                    return
                sock.settimeout(1)  # a flood that nobody reads
                self.connections += 1
                thread = threading.Thread(target=self._serve, args=(sock,))
                thread.start()
                stack.callback(thread.join, HANGS_S)

    def close_kept(self) -> None:
        for sock in self.kept:
            sock.shutdown(socket.SHUT_RDWR)

    def _serve(self, sock: socket.socket) -> None:
        try:
            with self.tls.wrap_socket(sock, server_side=True) if self.tls else sock as spoken:
                self._answer(spoken)
        except OSError:
            return

    def _answer(self, sock: socket.socket) -> None:
        self.kept.append(sock)
        while self.scripts and (request := sock.recv(65536)):
            self.requests.append(request)
            self._say(sock, self.scripts.pop(0)())
            if self.closes:
                return
            if self.upgrade:
                secure, self.upgrade = self.upgrade, None
                with secure.wrap_socket(sock, server_side=True) as tunnel:
                    self._answer(tunnel)

    def _say(self, sock: socket.socket, pieces: Iterator[bytes]) -> None:
        for piece in pieces:
            sock.sendall(piece)
            if self.ended.wait(self.pause_s):
                return


@contextmanager
def serving(*scripts: Says, **options: object) -> Iterator[Server]:
    server = Server(list(scripts), **options)  # type: ignore[arg-type]
    thread = threading.Thread(target=server.accept)
    thread.start()
    try:
        yield server
    finally:
        server.ended.set()
        server.listening.shutdown(socket.SHUT_RDWR)
        server.listening.close()
        thread.join(HANGS_S)


def good() -> Iterator[bytes]:
    yield GOOD


def trickled_head() -> Iterator[bytes]:
    return chain((bytes([byte]) for byte in b"HTTP/1.1 200 OK\r\nX-Long: "), repeat(b"x"))


def endless_continue() -> Iterator[bytes]:
    return repeat(b"HTTP/1.1 100 Continue\r\n\r\n")


def trickled_body() -> Iterator[bytes]:
    yield b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n"
    yield from repeat(b"x")


def body_without_length() -> Iterator[bytes]:
    yield b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n"
    yield from repeat(b"x")


def trickled_chunks() -> Iterator[bytes]:
    yield b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    yield from repeat(b"1\r\nx\r\n")


SLOW = [trickled_head, endless_continue, trickled_body, body_without_length, trickled_chunks]


def client(tls: TlsFiles | None = None, **environ: str) -> AbstractContextManager[HttpClient]:
    return closing(HttpClient(tls, limit_bytes=1000, environ=environ))


def post(by: HttpClient, url: str, data: bytes = b"data") -> Response:
    return by.post(url, data, {}, HANGS_S)


def is_good(response: Response) -> bool:
    return (response.status, response.body) == (200, b"ok")


def is_late(by: HttpClient, url: str, limit_s: float = LIMIT_S) -> bool:
    with pytest.raises(HttpError, match=rf"^no complete answer within {limit_s:g} s$") as caught:
        by.post(url, b"data", {}, limit_s)
    return caught.value.failure is HttpFailure.TIMEOUT


def failure(by: HttpClient, url: str, **headers: str) -> HttpError:
    with pytest.raises(HttpError) as caught:
        by.get(url, headers, HANGS_S)
    return caught.value


@pytest.mark.parametrize("slow", SLOW)
def test_an_answer_that_trickles_ends_at_the_limit_and_the_next_request_connects_anew(
    slow: Says,
) -> None:
    with serving(slow) as server, client() as by:
        assert is_late(by, f"http://{server.place}/")
        server.scripts[:] = [good]  # the slow one may not have begun
        assert is_good(post(by, f"http://{server.place}/"))
        assert server.connections == 2


@pytest.mark.parametrize("slow", SLOW)
def test_a_connection_that_was_kept_is_cut_as_well(slow: Says) -> None:
    with serving(good, slow) as server, client() as by:
        assert is_good(post(by, f"http://{server.place}/"))
        assert is_late(by, f"http://{server.place}/")
        assert server.connections == 1


def test_a_flood_of_continue_ends_at_the_limit() -> None:
    flood = b"HTTP/1.1 100 Continue\r\n\r\n" * 1000
    with serving(lambda: repeat(flood), pause_s=0) as server, client() as by:
        assert is_late(by, f"http://{server.place}/")


def test_an_answer_over_tls_that_trickles_ends_at_the_limit(tmp_path: Path) -> None:
    made = make_certificates(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(made.server.cert, made.server.key)
    with (
        serving(trickled_head, tls=context) as server,
        client(TlsFiles(ca_file=str(made.ca))) as by,
    ):
        assert is_late(by, f"https://{server.place}/")
        server.scripts[:] = [good]
        assert is_good(post(by, f"https://{server.place}/"))


def test_a_handshake_that_trickles_ends_at_the_limit() -> None:
    record = b"\x16\x03\x03\x40\x00\x02\x00\x3f\xfc"

    def handshake() -> Iterator[bytes]:
        yield record
        yield from repeat(b"x")

    with serving(handshake) as server, client() as by:
        assert is_late(by, f"https://{server.place}/")


def test_a_refused_connection_is_told_as_such() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with client() as by:
        error = failure(by, f"http://127.0.0.1:{port}/")
    assert (str(error), error.failure) == ("Connection refused", HttpFailure.REFUSED)


def test_a_kept_connection_that_the_server_closed_meanwhile_is_no_failure_of_a_post() -> None:
    with serving(lambda: iter([GOOD]), good) as server, client() as by:
        assert is_good(post(by, f"http://{server.place}/"))
        server.close_kept()
        assert is_good(post(by, f"http://{server.place}/"))
        assert server.connections == 2


def test_another_host_gets_a_connection_of_its_own() -> None:
    with serving(good) as one, serving(good) as other, client() as by:
        assert is_good(post(by, f"http://{one.place}/"))
        assert is_good(post(by, f"http://{other.place}/"))


def test_what_a_server_answers_before_it_read_all_is_the_answer() -> None:
    """Such as 413: the reason why it does not read on."""
    answer = b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n"

    def refuse() -> Iterator[bytes]:
        yield answer

    with serving(refuse, closes=True) as server, client() as by:
        assert post(by, f"http://{server.place}/", bytes(32 << 20)).status == 413


def test_a_longer_answer_is_its_beginning() -> None:
    def endless() -> Iterator[bytes]:
        yield b"HTTP/1.1 200 OK\r\n\r\n"
        yield from repeat(b"x" * 300)

    with serving(endless, good, pause_s=0) as server, client() as by:
        response = post(by, f"http://{server.place}/")
        assert (response.body, response.truncated) == (b"x" * 1000, True)
        assert is_good(post(by, f"http://{server.place}/"))


def test_the_limit_is_for_the_unpacked_answer() -> None:
    packed = gzip.compress(bytes(10_000_000))

    def bomb() -> Iterator[bytes]:
        head = f"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: {len(packed)}"
        yield f"{head}\r\n\r\n".encode() + packed

    with serving(bomb) as server, client() as by:
        response = post(by, f"http://{server.place}/")
    assert (len(response.body), response.truncated) == (1000, True)


@pytest.mark.parametrize("value", ["two\r\nlines", "\u20ac"])
def test_a_header_that_cannot_be_sent_is_told_without_its_value(value: str) -> None:
    with serving() as server, client() as by:
        error = failure(by, f"http://{server.place}/", key=value)
    assert re.fullmatch(r"no valid request can be made of the settings \(\w+\)", str(error))


@pytest.mark.parametrize("url", ["http://[secret", "ftp://secret/", "http://host:secret/", ""])
def test_a_url_that_cannot_be_used_is_not_shown(url: str) -> None:
    with client() as by:
        assert "secret" not in str(failure(by, url))


def test_characters_that_no_url_may_have_are_encoded() -> None:
    with serving(good) as server, client() as by:
        post(by, f"http://{server.place}/a b/\u00e9?x=%20{{y}}#z")
        assert server.requests[0].startswith(b"POST /a%20b/%C3%A9?x=%20%7By%7D HTTP/1.1\r\n")


def test_the_tls_files_are_read_when_connecting(tmp_path: Path) -> None:
    absent = tmp_path / "ca.pem"
    with serving() as server, client(TlsFiles(ca_file=str(absent))) as by:
        error = failure(by, f"https://{server.place}/")
    assert error.failure is HttpFailure.TLS_FILES
    assert str(error) == f"ca_file {absent}: No such file or directory"


def test_a_proxy_is_asked_for_a_page_without_tls() -> None:
    with serving(good) as proxy, client(http_proxy=f"http://me:p%40ss@{proxy.place}") as by:
        assert is_good(post(by, "http://backend.invalid:8080/path?x=1"))
        head = proxy.requests[0]
    assert head.startswith(b"POST http://backend.invalid:8080/path?x=1 HTTP/1.1\r\n")
    assert b"\r\nHost: backend.invalid:8080\r\n" in head
    assert b"\r\nProxy-Authorization: Basic bWU6cEBzcw==\r\n" in head


def test_a_proxy_opens_a_tunnel_for_tls_and_sees_no_header_of_the_request(tmp_path: Path) -> None:
    made = make_certificates(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(made.server.cert, made.server.key)
    files = TlsFiles(ca_file=str(made.ca))
    established = b"HTTP/1.1 200 Connection established\r\n\r\n"
    with (
        serving(lambda: iter([established]), good, upgrade=context) as proxy,
        client(files, https_proxy=f"me:pass@{proxy.place}") as by,
    ):
        response = by.post("https://localhost:4318/", b"data", {"Api-Key": "s3cret"}, HANGS_S)
        assert is_good(response)
        tunnel, request = proxy.requests
    assert tunnel.startswith(b"CONNECT localhost:4318 HTTP/1.1\r\nHost: localhost:4318\r\n")
    assert b"Proxy-Authorization: Basic bWU6cGFzcw==" in tunnel
    assert b"s3cret" not in tunnel
    assert b"s3cret" in request
    assert b"Proxy-Authorization" not in request


def test_a_proxy_that_refuses_is_told() -> None:
    refusal = b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n"
    with serving(lambda: iter([refusal])) as proxy, client(https_proxy=proxy.place) as by:
        error = failure(by, "https://backend.invalid/")
    assert str(error) == "the proxy answered 407 Proxy Authentication Required"


def test_a_proxy_that_trickles_ends_at_the_limit() -> None:
    with serving(trickled_head) as server, client(https_proxy=f"http://{server.place}") as by:
        assert is_late(by, "https://backend.invalid/", 2.0)  # time enough to connect
        wait_until(lambda: server.connections, "the connection to the proxy")


def test_a_proxy_of_another_kind_is_told_without_its_password() -> None:
    with client(all_proxy="socks5://me:secret@h:1080") as by:
        error = failure(by, "http://backend.invalid/")
    assert str(error) == "proxy socks5://h: not supported; allowed: http://host:port"


@pytest.mark.parametrize(
    ("no_proxy", "direct"),
    [
        ("", False),
        ("*", True),
        ("other, backend.example", True),
        (".example", True),
        ("example", True),
        ("ample", False),
        ("backend.example:4318", True),
        ("backend.example:80", False),
        ("10.0.0.0/8", False),
    ],
)
def test_hosts_in_no_proxy_are_reached_directly(no_proxy: str, *, direct: bool) -> None:
    environ = {"HTTP_PROXY": "proxy:3128", "no_proxy": no_proxy}
    assert (proxy_for(environ, "http", "backend.example", 4318) == "") == direct


@pytest.mark.parametrize(("address", "direct"), [("10.1.2.3", True), ("11.1.2.3", False)])
def test_networks_in_no_proxy_are_reached_directly(address: str, *, direct: bool) -> None:
    environ = {"https_proxy": "http://proxy:3128", "NO_PROXY": "10.0.0.0/8"}
    assert (proxy_for(environ, "https", address, 443) == "") == direct


def test_a_lower_case_variable_goes_before_the_upper_case_one() -> None:
    environ = {"http_proxy": "a", "HTTP_PROXY": "b", "ALL_PROXY": "c"}
    assert proxy_for(environ, "http", "h", 80) == "http://a"
    assert proxy_for(environ, "https", "h", 443) == "http://c"
    assert proxy_for({}, "http", "h", 80) == ""
