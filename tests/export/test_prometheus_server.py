"""The page is served to whom it is for, and to nobody else."""

from __future__ import annotations

import http.client
import socket
import ssl
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from otel_ofu.export.prometheus_server import Listen, PrometheusServer
from tests.peers.certs import make_certificates
from tests.waiting import HANGS_S, wait_until

Answer = tuple[int, str, dict[str, str]]


@contextmanager
def serving(listen: Listen | None = None, text: str = "up 1\n") -> Iterator[PrometheusServer]:
    server = PrometheusServer(lambda: text, listen or Listen(port=0))
    server.start()
    try:
        yield server
    finally:
        server.close()
        server.close()


def ask(
    server: PrometheusServer,
    path: str = "/metrics",
    method: str = "GET",
    tls: ssl.SSLContext | None = None,
    **headers: str,
) -> Answer:
    connection = (
        http.client.HTTPSConnection(server.host, server.port, timeout=HANGS_S, context=tls)
        if tls
        else http.client.HTTPConnection(server.host, server.port, timeout=HANGS_S)
    )
    try:
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read().decode(), dict(answer.headers.items())
    finally:
        connection.close()


def test_the_page_is_at_metrics_on_loopback_and_nothing_is_elsewhere() -> None:
    with serving() as server:
        assert server.host == "127.0.0.1"
        status, text, headers = ask(server)
        assert (status, text) == (200, "up 1\n")
        assert headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
        assert "Python" not in headers["Server"]
        assert ask(server, "/metrics?name[]=x")[0] == 200
        assert [ask(server, path)[0] for path in ("/", "/metrics/", "/../etc/passwd")] == [404] * 3
        assert ask(server, method="POST")[0] == 501


def test_text_that_is_no_proper_unicode_is_still_served() -> None:
    with serving(text='up{job="\udcff"} 1\n') as server:
        assert ask(server)[:2] == (200, 'up{job="?"} 1\n')


def test_a_token_is_asked_for() -> None:
    with serving(Listen(port=0, token="s3cret")) as server:
        status, text, headers = ask(server)
        assert (status, headers["WWW-Authenticate"]) == (401, "Bearer")
        assert "up" not in text
        assert ask(server, Authorization="Bearer s3cre")[0] == 401
        assert ask(server, Authorization="Basic s3cret")[0] == 401
        assert ask(server, Authorization="Bearer s3cret")[0] == 200


def test_tls_is_served_and_a_silent_client_holds_up_nobody(tmp_path: Path) -> None:
    made = make_certificates(tmp_path)
    listen = Listen(port=0, cert_file=str(made.server.cert), key_file=str(made.server.key))
    context = ssl.create_default_context(cafile=str(made.ca))
    with serving(listen) as server, socket.create_connection((server.host, server.port)):
        assert ask(server, tls=context)[:2] == (200, "up 1\n")


def test_slow_connections_however_many_keep_no_scrape_out() -> None:
    with serving(Listen(port=0, token="s3cret")) as server, ExitStack() as stack:
        slow = []
        for _ in range(40):
            waiting = socket.create_connection((server.host, server.port), timeout=HANGS_S)
            slow.append(stack.enter_context(waiting))
            waiting.sendall(b"G")
        for _ in range(3):
            assert ask(server, Authorization="Bearer s3cret")[:2] == (200, "up 1\n")
        wait_until(lambda: is_ended(slow[0]), "the oldest to make way")


def test_a_head_that_does_not_end_is_given_up() -> None:
    with (
        serving() as server,
        socket.create_connection((server.host, server.port), timeout=0.25) as slow,
    ):
        slow.sendall(b"GET /metrics HTTP/1.1\r\n")
        wait_until(lambda: is_given_up(slow), "the end of patience")


def is_given_up(sock: socket.socket) -> bool:
    """Sends one more byte of the head, then looks."""
    try:
        sock.sendall(b"x")
    except ConnectionError:
        return True
    return is_ended(sock)


def is_ended(sock: socket.socket) -> bool:
    try:
        return sock.recv(1) == b""
    except TimeoutError:
        return False
    except ConnectionError:
        return True


def test_a_port_that_is_taken_is_one_clear_error() -> None:
    with serving() as server, pytest.raises(ValueError, match=f"cannot listen on .*:{server.port}"):
        PrometheusServer(lambda: "", Listen(port=server.port))


def test_certificates_that_are_no_use_are_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"cert_file /nowhere\.pem: No such file"):
        PrometheusServer(lambda: "", Listen(port=0, cert_file="/nowhere.pem"))
    with pytest.raises(ValueError, match="key_file without cert_file"):
        PrometheusServer(lambda: "", Listen(port=0, key_file="key.pem"))


def test_ipv6_is_served() -> None:
    if not socket.has_ipv6:
        pytest.skip("no IPv6 here")
    try:
        with serving(Listen("::1", 0)) as server:
            assert ask(server)[0] == 200
    except ValueError as error:
        pytest.skip(str(error))
