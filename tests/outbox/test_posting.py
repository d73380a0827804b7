"""A post ends in time, whatever the server does, and the next one starts afresh.

The slow answers never end by themselves: that a post ends at all is what is tested.
"""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import chain, repeat
from pathlib import Path

import pytest

from otel_ofu.outbox.outcome import Unavailable
from otel_ofu.outbox.posting import Answer, Poster
from tests.peers.certs import make_certificates
from tests.waiting import HANGS_S

GOOD = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
LIMIT_S = 0.4
LATE = Unavailable("no answer within 0.4 s")
# Each pause is well within the limit, as is each read; all of them together are not.
PAUSE_S = 0.05

Says = Callable[[], Iterator[bytes]]


@dataclass(frozen=True)
class Tls:
    ca_file: str | None = None
    cert_file: str | None = None
    key_file: str | None = None


@dataclass
class Server:
    """Reads a request, then sends the pieces of the next script; one connection per thread."""

    scripts: list[Says]
    pause_s: float = PAUSE_S
    tls: ssl.SSLContext | None = None
    connections: int = 0
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

    def _serve(self, sock: socket.socket) -> None:
        try:
            with self.tls.wrap_socket(sock, server_side=True) if self.tls else sock as spoken:
                while self.scripts and spoken.recv(65536):
                    self._say(spoken, self.scripts.pop(0)())
        except OSError:
            return

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


def post(poster: Poster, url: str, limit_s: float = LIMIT_S) -> Answer | Unavailable:
    return poster.post(url, b"data", {}, limit_s)


def is_good(answer: Answer | Unavailable) -> bool:
    return isinstance(answer, Answer) and (answer.status, answer.body) == (200, b"ok")


@contextmanager
def posting(tls: Tls | None = None) -> Iterator[Poster]:
    poster = Poster(tls or Tls())
    try:
        yield poster
    finally:
        poster.close()


@pytest.mark.parametrize("slow", SLOW)
def test_an_answer_that_trickles_ends_at_the_limit_and_the_next_post_connects_anew(
    slow: Says,
) -> None:
    with serving(slow) as server, posting() as poster:
        assert post(poster, f"http://{server.place}/") == LATE
        server.scripts[:] = [good]  # the slow one may not have begun
        assert is_good(post(poster, f"http://{server.place}/", HANGS_S))
        assert server.connections == 2


@pytest.mark.parametrize("slow", SLOW)
def test_a_connection_that_was_kept_is_cut_as_well(slow: Says) -> None:
    with serving(good, slow) as server, posting() as poster:
        assert is_good(post(poster, f"http://{server.place}/", HANGS_S))
        assert post(poster, f"http://{server.place}/") == LATE
        assert server.connections == 1


def test_a_flood_of_continue_ends_at_the_limit() -> None:
    flood = b"HTTP/1.1 100 Continue\r\n\r\n" * 1000
    with serving(lambda: repeat(flood), pause_s=0) as server, posting() as poster:
        assert post(poster, f"http://{server.place}/") == LATE


def test_an_answer_over_tls_that_trickles_ends_at_the_limit(tmp_path: Path) -> None:
    made = make_certificates(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(made.server.cert, made.server.key)
    with (
        serving(trickled_head, tls=context) as server,
        posting(Tls(str(made.ca))) as poster,
    ):
        assert post(poster, f"https://{server.place}/") == LATE
        server.scripts[:] = [good]
        assert is_good(post(poster, f"https://{server.place}/", HANGS_S))


def test_a_proxy_that_trickles_ends_at_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(trickled_head) as server, posting() as poster:
        monkeypatch.setenv("https_proxy", f"http://{server.place}")
        assert post(poster, "https://backend.invalid/") == LATE
        assert server.connections == 1


def test_a_handshake_that_trickles_ends_at_the_limit() -> None:
    record = b"\x16\x03\x03\x40\x00\x02\x00\x3f\xfc"

    def handshake() -> Iterator[bytes]:
        yield record
        yield from repeat(b"x")

    with serving(handshake) as server, posting() as poster:
        assert post(poster, f"https://{server.place}/") == LATE


def test_a_refused_connection_is_told_as_such() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with posting() as poster:
        answer = post(poster, f"http://127.0.0.1:{port}/")
    assert answer == Unavailable("Connection refused")
