"""One query over HTTP: what is sent, what is understood, and what is said when it goes wrong."""

from __future__ import annotations

import json
import socket
import ssl
import threading
from contextlib import closing
from pathlib import Path
from urllib.parse import parse_qs

import pytest

from otel_ofu.files.settings import CheckContext, Duration, mistakes
from otel_ofu.rules.promql.server import (
    QueryClient,
    QueryError,
    ServerUnavailableError,
)
from otel_ofu.rules.settings import ServerSettings
from tests.export.servers import HttpServer, Reply, http_server
from tests.peers.certs import Certificates

JSON = {"Content-Type": "application/json"}


def vector(*samples: tuple[dict[str, str], str], **more: object) -> Reply:
    result = [{"metric": labels, "value": [1.5, value]} for labels, value in samples]
    body = {"status": "success", "data": {"resultType": "vector", "result": result}, **more}
    return Reply(body=json.dumps(body).encode(), headers=JSON)


def failure(status: int, error: str) -> Reply:
    body = {"status": "error", "errorType": "bad_data", "error": error}
    return Reply(status, json.dumps(body).encode(), JSON)


def ask(to: HttpServer, **settings: object) -> list[tuple[dict[str, str], float]]:
    given = {"url": to.url, **settings}
    limits = {key: given.pop(key) for key in ("limit_bytes", "headers") if key in given}
    with closing(QueryClient(ServerSettings(**given), **limits)) as server:  # type: ignore[arg-type]
        return [(dict(labels), value) for labels, value in server.query("up", 1_700_000_000.25)]


def error_of(to: HttpServer, **settings: object) -> QueryError:
    with pytest.raises(QueryError) as caught:
        ask(to, **settings)
    assert str(caught.value).startswith(f"{to.url}/api/v1/query: ")
    return caught.value


def test_a_vector_comes_back_with_labels_and_numbers() -> None:
    with http_server(vector(({"hw_id": "GPU-1"}, "0.25"), ({}, "+Inf"))) as server:
        assert ask(server) == [({"hw_id": "GPU-1"}, 0.25), ({}, float("inf"))]
    form = parse_qs(server.got[0].raw.decode())
    assert form["query"] == ["up"]
    assert form["time"] == ["1700000000.250"]
    assert form["partial_response"] == ["false"]
    assert server.got[0].path == "/api/v1/query"


def test_a_path_prefix_stays() -> None:
    with http_server(vector()) as server:
        assert ask(server, url=f"{server.url}/prometheus/") == []
    assert server.got[0].path == "/prometheus/api/v1/query"


def test_tenant_headers_and_token_go_along(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("s3cret\n")
    with http_server(vector()) as server:
        ask(server, tenant="ml", bearer_token_file=str(token), headers={"X-Extra": "1"})
    sent = server.got[0].headers
    assert (sent["X-Scope-OrgID"], sent["X-Extra"]) == ("ml", "1")
    assert sent["Authorization"] == "Bearer s3cret"


def test_a_changed_token_counts_at_once(tmp_path: Path) -> None:
    token = tmp_path / "token"
    with http_server(vector(), vector()) as to:
        settings = ServerSettings(url=to.url, bearer_token_file=str(token))
        with closing(QueryClient(settings)) as server:
            for word in ("one", "two"):
                token.write_text(word)
                server.query("up", 0.0)
    assert [got.headers["Authorization"] for got in to.got] == ["Bearer one", "Bearer two"]


def test_basic_credentials(tmp_path: Path) -> None:
    password = tmp_path / "password"
    password.write_text("pässword\n", "utf-8")
    with http_server(vector()) as server:
        ask(server, username="me", password_file=str(password))
    assert server.got[0].headers["Authorization"] == "Basic bWU6cMOkc3N3b3Jk"


def test_without_credentials_those_of_the_home_folder_stay_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login me password secret\n")
    monkeypatch.setenv("NETRC", str(netrc))
    with http_server(vector()) as server:
        ask(server)
    assert "Authorization" not in server.got[0].headers


def test_what_the_server_dislikes_is_said_in_its_words() -> None:
    with http_server(failure(400, "1:5: parse error"), failure(422, "too many samples")) as server:
        error = error_of(server)
        assert "answered 400 Bad Request: 1:5: parse error" in str(error)
        assert not isinstance(error, ServerUnavailableError)
        assert "too many samples" in str(error_of(server))


@pytest.mark.parametrize(
    ("status", "hint"),
    [(401, "bearer_token_file"), (403, "not allowed to query"), (404, "url is the part before")],
)
def test_who_is_not_let_in_gets_a_hint(status: int, hint: str) -> None:
    with http_server(Reply(status, b"no", {"Content-Type": "text/plain"})) as server:
        error = error_of(server)
    assert isinstance(error, ServerUnavailableError)
    assert hint in str(error)
    assert "no answer of a Prometheus API: no" in str(error)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"<html>log in</html>", "no answer of a Prometheus API: <html>log in</html>"),
        (b"", "it is empty"),
        (b'{"status":"success"}', ": success"),
        (b'{"status":"success","data":{"resultType":"scalar","result":[1,"2"]}}', "a scalar"),
        (b'{"status":"success","data":{"resultType":"vector","result":[{}]}}', "no vector"),
        (b"\xff\xfe", "no answer of a Prometheus API"),
    ],
)
def test_what_is_no_answer_is_told(body: bytes, words: str) -> None:
    with http_server(Reply(200, body, JSON)) as server:
        assert words in str(error_of(server))


def test_a_partial_answer_is_none() -> None:
    with http_server(vector(({}, "1"), isPartial=True)) as server:
        assert "partial" in str(error_of(server))


def test_a_redirect_is_not_followed() -> None:
    with http_server(Reply(302, b"", {"Location": "http://127.0.0.1:1/login?next=x"})) as server:
        text = str(error_of(server))
    assert "a redirect to http://127.0.0.1:1/login; not followed" in text
    assert len(server.got) == 1


def test_an_answer_without_end_is_cut() -> None:
    with http_server(Reply(200, b" " * 65536, JSON, repeat=1000)) as server:
        text = str(error_of(server, limit_bytes=3 << 20))
    assert "larger than 3 MiB" in text


def test_an_answer_that_does_not_come_is_waited_for_so_long() -> None:
    wait = threading.Event()
    with http_server(Reply(wait=wait)) as server:
        error = error_of(server, timeout=Duration(0.1))
        wait.set()
    assert isinstance(error, ServerUnavailableError)
    assert "no complete answer within 0.1 s" in str(error)


def test_a_broken_connection_is_told_and_the_next_query_works() -> None:
    with (
        http_server(Reply(reset=True), vector(({}, "2"))) as to,
        closing(QueryClient(ServerSettings(url=to.url))) as server,
    ):
        with pytest.raises(ServerUnavailableError):
            server.query("up", 0.0)
        assert server.query("up", 0.0) == [({}, 2.0)]


def test_nobody_there_is_told_without_the_inner_names() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{probe.getsockname()[1]}"
    with (
        closing(QueryClient(ServerSettings(url=url))) as server,
        pytest.raises(ServerUnavailableError, match=f"^{url}/api/v1/query: Connection refused$"),
    ):
        server.query("up", 0.0)


def test_a_server_is_trusted_by_its_authority_alone(certificates: Certificates) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates.server.cert, certificates.server.key)
    with http_server(vector(({}, "1")), tls=context) as server:
        url = server.url.replace("http:", "https:")
        with (
            closing(QueryClient(ServerSettings(url=url))) as stranger,
            pytest.raises(ServerUnavailableError, match=r"not trusted: .*; set ca_file"),
        ):
            stranger.query("up", 0.0)
        assert ask(server, url=url, ca_file=str(certificates.ca)) == [({}, 1.0)]


def test_a_token_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    with http_server() as server:
        path = tmp_path / "absent"
        assert f"{path}: No such file" in str(error_of(server, bearer_token_file=str(path)))
        path.write_text("two\nlines")
        assert "expected one line" in str(error_of(server, bearer_token_file=str(path)))
    assert server.got == []


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("prometheus:9090", "allowed: http"),
        ("http://", "allowed: http"),
        ("http://host:port", "allowed: http"),
        ("ftp://host", "allowed: http"),
        ("http://host/a b", "allowed: http"),
        ("http://me:secret@host", "use the keys for credentials"),
        ("http://host?x=1", "no ? or #"),
        ("http://host/api/v1/query", "the part before /api/v1/query"),
    ],
)
def test_a_url_that_is_none_is_a_mistake(url: str, words: str) -> None:
    ((steps, message),) = mistakes(ServerSettings(url=url), CheckContext(0.0))
    assert steps == ("url",)
    assert words in message
    assert "secret" not in message


def test_settings_that_cannot_be_used_are_mistakes(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("no")
    (tmp_path / "token").write_text("t")
    for settings, steps, why in (
        (
            ServerSettings(username="me", bearer_token_file=str(tmp_path / "token")),
            ("username",),
            "one of them",
        ),
        (ServerSettings(timeout=Duration(0)), ("timeout",), "must be from 1ms to 1h"),
        (ServerSettings(ca_file=str(tmp_path / "none.pem")), ("ca_file",), "no such file"),
        (ServerSettings(ca_file=str(tmp_path / "ca.pem")), ("ca_file",), "in PEM"),
    ):
        ((found, message),) = mistakes(settings, CheckContext(0.0))
        assert (found, why in message) == (steps, True), message
