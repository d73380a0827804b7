"""The page is served to whom it is for, and to nobody else."""

from __future__ import annotations

import http.client
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from otel_ofu.config import config_from_text
from otel_ofu.export.prometheus import page_server
from otel_ofu.export.settings import PrometheusSettings, page_address
from otel_ofu.model.errors import ConfigError
from otel_ofu.net.http_server import HttpServer
from otel_ofu.net.settings import Address
from tests.peers.certs import make_certificates
from tests.waiting import HANGS_S

FREE = "127.0.0.1:0"
Answer = tuple[int, str, dict[str, str]]


@contextmanager
def serving(listen: PrometheusSettings | None = None, text: str = "up 1\n") -> Iterator[HttpServer]:
    server = page_server(lambda: text, listen or PrometheusSettings(listen=FREE))
    server.start()
    try:
        yield server
    finally:
        server.close()
        server.close()


def ask(
    server: HttpServer,
    path: str = "/metrics",
    method: str = "GET",
    tls: ssl.SSLContext | None = None,
    **headers: str,
) -> Answer:
    connection = (
        http.client.HTTPSConnection("127.0.0.1", server.port, timeout=HANGS_S, context=tls)
        if tls
        else http.client.HTTPConnection("127.0.0.1", server.port, timeout=HANGS_S)
    )
    try:
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read().decode(), dict(answer.headers.items())
    finally:
        connection.close()


def test_the_page_is_at_metrics_on_loopback_and_nothing_is_elsewhere() -> None:
    with serving() as server:
        assert str(server.address) == f"127.0.0.1:{server.port}"
        status, text, headers = ask(server)
        assert (status, text) == (200, "up 1\n")
        assert headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
        assert "Server" not in headers
        assert ask(server, "/metrics?name[]=x")[0] == 200
        assert [ask(server, path)[0] for path in ("/", "/metrics/", "/../etc/passwd")] == [404] * 3
        assert ask(server, method="POST")[0] == 405
        status, text, headers = ask(server, method="HEAD")
        assert (status, text, headers["Content-Length"]) == (200, "", "5")


def test_text_that_is_no_proper_unicode_is_still_served() -> None:
    with serving(text='up{job="\udcff"} 1\n') as server:
        assert ask(server)[:2] == (200, 'up{job="?"} 1\n')


def test_a_token_is_asked_for_and_may_change(tmp_path: Path) -> None:
    secret = tmp_path / "token"
    secret.write_text("s3cret\n")
    with serving(PrometheusSettings(listen=FREE, bearer_token_file=str(secret))) as server:
        status, text, headers = ask(server)
        assert (status, headers["WWW-Authenticate"]) == (401, "Bearer")
        assert "up" not in text
        assert ask(server, Authorization="Bearer s3cre")[0] == 401
        assert ask(server, Authorization="Basic s3cret")[0] == 401
        assert ask(server, Authorization="Bearer s3cret")[0] == 200
        secret.write_text("changed\n")
        assert ask(server, Authorization="Bearer s3cret")[0] == 401
        assert ask(server, Authorization="Bearer changed")[0] == 200


def test_tls_is_served(tmp_path: Path) -> None:
    made = make_certificates(tmp_path)
    listen = PrometheusSettings(
        listen=FREE, cert_file=str(made.server.cert), key_file=str(made.server.key)
    )
    context = ssl.create_default_context(cafile=str(made.ca))
    with serving(listen) as server:
        assert ask(server, tls=context)[:2] == (200, "up 1\n")


def test_a_port_that_is_taken_is_one_clear_error() -> None:
    with serving() as server, pytest.raises(ValueError, match=f"cannot listen on .*:{server.port}"):
        page_server(lambda: "", PrometheusSettings(listen=str(server.address)))


def test_certificates_that_are_no_use_are_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"cert_file and key_file /nowhere\.pem: No such file"):
        page_server(lambda: "", PrometheusSettings(listen=FREE, cert_file="/nowhere.pem"))
    with pytest.raises(ValueError, match="key_file without cert_file"):
        page_server(lambda: "", PrometheusSettings(listen=FREE, key_file="key.pem"))


def has_ipv6_loopback() -> bool:
    """Whether this machine, not our server, can listen on ::1."""
    try:
        with socket.socket(socket.AF_INET6, socket.SOCK_STREAM) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return False
    return True


@pytest.mark.skipif(not has_ipv6_loopback(), reason="no IPv6 loopback here")
def test_ipv6_is_served() -> None:
    with serving(PrometheusSettings(listen="[::1]:0")) as server:
        assert str(server.address) == f"[::1]:{server.port}"
        connection = http.client.HTTPConnection("::1", server.port, timeout=HANGS_S)
        connection.request("GET", "/metrics")
        assert connection.getresponse().status == 200
        connection.close()


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("127.0.0.1:9464", "127.0.0.1", 9464),
        (":9464", "127.0.0.1", 9464),
        ("[::1]:9464", "::1", 9464),
        ("0.0.0.0:0", "0.0.0.0", 0),
    ],
)
def test_addresses_to_listen_on(text: str, host: str, port: int) -> None:
    config = config_from_text(f"exporters: {{prometheus: {{listen: '{text}'}}}}")
    assert page_address(config.exporters.prometheus.listen) == Address(host, port)


@pytest.mark.parametrize("text", ["9464", "host:", "host:99999", "host:port"])
def test_invalid_addresses_are_refused_with_what_is_allowed(text: str) -> None:
    with pytest.raises(ConfigError, match=r"allowed: host:port, such as 127\.0\.0\.1"):
        config_from_text(f"exporters: {{prometheus: {{listen: '{text}'}}}}")
