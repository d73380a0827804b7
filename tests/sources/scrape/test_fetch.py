"""Against a real HTTP server on the loopback."""

import base64
import gzip
import ssl
from pathlib import Path

import pytest

from otel_ofu.model import GapReason
from otel_ofu.model.errors import ConfigError
from otel_ofu.sources.scrape.client import Fetcher, FetchError
from otel_ofu.sources.scrape.settings import PageEndpoint, endpoint_at
from tests.peers.certs import Certificates
from tests.sources.scrape.server import Answer, Exchange, page, serving
from tests.waiting import HANGS_S

TEXT = 'up{gpu="0"} 1\n'


def fetch(endpoint: PageEndpoint) -> str:
    fetcher = Fetcher(endpoint)
    try:
        return fetcher.fetch()
    finally:
        fetcher.close()


def failure(answer: Answer, **options: float) -> FetchError:
    with serving(answer) as server:
        endpoint = endpoint_at(
            server.url,
            timeout_s=options.get("timeout_s", HANGS_S),
            limit_bytes=int(options.get("limit_bytes", 10_000)),
        )
        with pytest.raises(FetchError) as caught:
            fetch(endpoint)
        assert str(caught.value).startswith(f"{server.url}: ")
        return caught.value


def test_a_page_is_fetched_over_one_connection_again_and_again() -> None:
    with serving(page(TEXT)) as server:
        fetcher = Fetcher(endpoint_at(server.url))
        assert [fetcher.fetch() for _ in range(3)] == [TEXT] * 3
        fetcher.close()
        fetcher.close()
    assert server.connections == 1


def test_a_connection_that_the_server_closed_meanwhile_is_opened_anew() -> None:
    def close_silently(exchange: Exchange) -> None:
        exchange.reply(TEXT.encode())
        exchange.close_connection = True

    with serving(close_silently) as server:
        fetcher = Fetcher(endpoint_at(server.url))
        assert [fetcher.fetch() for _ in range(3)] == [TEXT] * 3
        fetcher.close()
    assert server.connections == 3


def test_a_connection_that_the_server_announces_to_close_is_opened_anew() -> None:
    with serving(lambda e: e.reply(TEXT.encode(), Connection="close")) as server:
        fetcher = Fetcher(endpoint_at(server.url))
        assert [fetcher.fetch() for _ in range(2)] == [TEXT] * 2
        fetcher.close()
    assert server.connections == 2


@pytest.mark.parametrize("members", [1, 2])
def test_gzip_is_unpacked(members: int) -> None:
    body = gzip.compress(TEXT.encode()) * members
    with serving(lambda e: e.reply(body, Content_Encoding="gzip")) as server:
        assert fetch(endpoint_at(server.url)) == TEXT * members


@pytest.mark.parametrize("size", [65536, 131072, 65535, 65537])
def test_a_gzip_page_as_long_as_the_pieces_is_complete(size: int) -> None:
    text = "x" * (size - 1) + "\n"
    body = gzip.compress(text.encode())
    with serving(lambda e: e.reply(body, Content_Encoding="gzip")) as server:
        assert fetch(endpoint_at(server.url)) == text


def test_a_chunked_page_is_read() -> None:
    def chunked(exchange: Exchange) -> None:
        exchange.send_response(200)
        exchange.send_header("Transfer-Encoding", "chunked")
        exchange.end_headers()
        exchange.wfile.write(b"5\r\nup 1\n\r\n0\r\n\r\n")

    with serving(chunked) as server:
        assert fetch(endpoint_at(server.url)) == "up 1\n"


def test_the_query_is_sent() -> None:
    with serving(page(TEXT)) as server:
        fetch(endpoint_at(f"{server.url}?match[]=a"))
    assert server.paths == ["/metrics?match[]=a"]


def test_an_exporter_that_is_not_there_is_named() -> None:
    with serving(page(TEXT)) as server:
        url = server.url
    with pytest.raises(FetchError, match="connection refused; check that the exporter runs"):
        fetch(endpoint_at(url))


def test_a_host_that_is_not_known_is_named() -> None:
    with pytest.raises(FetchError, match=r"http://no\.invalid:9400/metrics: .*host name"):
        fetch(endpoint_at("no.invalid:9400"))


def trickle_body(exchange: Exchange) -> None:
    exchange.send_response(200)
    exchange.send_header("Content-Length", "100000")
    exchange.end_headers()
    while not exchange.server.stopping.wait(0.02):
        exchange.wfile.write(b"#")
        exchange.wfile.flush()


def trickle_headers(exchange: Exchange) -> None:
    exchange.wfile.write(b"HTTP/1.1 200 OK\r\n")
    while not exchange.server.stopping.wait(0.02):
        exchange.wfile.write(b"a")
        exchange.wfile.flush()


def stay_mute(exchange: Exchange) -> None:
    exchange.server.stopping.wait(HANGS_S)


@pytest.mark.parametrize("answer", [trickle_body, trickle_headers, stay_mute])
def test_a_slow_server_ends_at_the_timeout(answer: Answer) -> None:
    error = failure(answer, timeout_s=0.3)
    assert "no complete answer within 0.3 s" in str(error)


def test_a_huge_page_is_refused() -> None:
    error = failure(page("x" * 20_000 + "\n"))
    assert "larger than 10000 bytes (max_body)" in str(error)


def test_a_gzip_bomb_is_refused_before_it_unfolds() -> None:
    bomb = gzip.compress(b"0" * 50_000_000)
    assert len(bomb) < 100_000
    error = failure(lambda e: e.reply(bomb, Content_Encoding="gzip"), limit_bytes=1_000_000)
    assert "larger than 1000000 bytes" in str(error)


def test_broken_gzip_is_an_error() -> None:
    error = failure(lambda e: e.reply(b"\x1f\x8bnothing", Content_Encoding="gzip"))
    assert "gzip" in str(error)


@pytest.mark.parametrize(
    "answer",
    [
        lambda e: e.reply(b'up{gpu="0"} 1\n', Content_Length="500", Connection="close"),
        lambda e: e.reply(gzip.compress(b"up 1\n" * 100)[:-9], Content_Encoding="gzip"),
        lambda e: e.reply(
            b"9\r\nup 1\n", Transfer_Encoding="chunked", Content_Length="", Connection="close"
        ),
    ],
    ids=["length", "gzip", "chunked"],
)
def test_a_half_written_page_is_an_error(answer: Answer) -> None:
    def once(exchange: Exchange) -> None:
        answer(exchange)
        exchange.close_connection = True

    assert "cut off" in str(failure(once))


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_a_page_is_text_in_the_encoding_of_its_byte_order_mark(encoding: str) -> None:
    mark = "\ufeff" if encoding == "utf-8" else ""
    with serving(lambda e: e.reply((mark + TEXT).encode(encoding))) as server:
        assert fetch(endpoint_at(server.url)) == mark + TEXT


@pytest.mark.parametrize("body", ["", "\n", "  \n\n"])
def test_an_empty_page_is_not_ready(body: str) -> None:
    error = failure(page(body))
    assert error.reason is GapReason.NOT_READY
    assert "empty" in str(error)


@pytest.mark.parametrize("content_type", ["text/html; charset=utf-8", "text/plain"])
def test_html_is_an_error(content_type: str) -> None:
    html = b"<html><body>Login</body></html>\n"
    assert "HTML" in str(failure(lambda e: e.reply(html, Content_Type=content_type)))


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_redirect_is_not_followed_and_its_secrets_are_not_told(status: int) -> None:
    location = "https://user:secret@other.test:9400/metrics?token=secret#secret"
    error = failure(lambda e: e.reply(b"", status, Location=location))
    assert "a redirect to https://other.test:9400/metrics; not followed" in str(error)
    assert "secret" not in str(error)


@pytest.mark.parametrize(
    ("status", "reason", "words"),
    [
        (401, GapReason.NOT_PERMITTED, "set username and password_file, or bearer_token_file"),
        (403, GapReason.NOT_PERMITTED, "may not read"),
        (404, GapReason.FAILED, "/metrics"),
        (503, GapReason.FAILED, "503 Service Unavailable"),
    ],
)
def test_any_other_status_is_an_error_with_a_hint(
    status: int, reason: GapReason, words: str
) -> None:
    error = failure(lambda e: e.reply(TEXT.encode(), status))
    assert error.reason is reason
    assert words in str(error)


def test_an_answer_that_is_not_http_is_an_error() -> None:
    def greet(exchange: Exchange) -> None:
        exchange.wfile.write(b"SSH-2.0-OpenSSH\r\n")

    error = failure(greet)
    assert "not an HTTP answer" in str(error)


def test_an_unknown_encoding_is_an_error() -> None:
    error = failure(lambda e: e.reply(b"\n", Content_Encoding="br"))
    assert "Content-Encoding br" in str(error)


def server_context(certificates: Certificates) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates.server.cert, certificates.server.key)
    return context


def test_tls_is_checked_against_the_given_ca(certificates: Certificates, tmp_path: Path) -> None:
    with serving(page(TEXT), server_context(certificates)) as server:
        assert fetch(endpoint_at(server.url, ca_file=str(certificates.ca))) == TEXT
        with pytest.raises(FetchError, match=r"certificate is not trusted: .*; set ca_file"):
            fetch(endpoint_at(server.url))
        with pytest.raises(FetchError, match=r"absent\.pem: No such file"):
            fetch(endpoint_at(server.url, ca_file=str(tmp_path / "absent.pem")))


def test_a_slow_server_behind_tls_ends_at_the_timeout(certificates: Certificates) -> None:
    with serving(trickle_body, server_context(certificates)) as server:
        endpoint = endpoint_at(server.url, timeout_s=0.5, ca_file=str(certificates.ca))
        with pytest.raises(FetchError, match="no complete answer within"):
            fetch(endpoint)


def test_a_user_in_the_url_is_sent_and_never_told() -> None:
    with serving(page(TEXT)) as server:
        url = server.url.replace("http://", "http://me:p%40ss@")
        endpoint = endpoint_at(url)
        fetch(endpoint)
    expected = base64.b64encode(b"me:p@ss").decode()
    assert server.authorizations == [f"Basic {expected}"]
    assert endpoint.name == server.url
    assert "me" not in endpoint.url.removesuffix("/metrics")


def test_a_token_is_read_anew_for_each_request(tmp_path: Path) -> None:
    token = tmp_path / "token"
    with serving(page(TEXT)) as server:
        fetcher = Fetcher(endpoint_at(server.url, bearer_token_file=str(token)))
        for word in ("one", "two"):
            token.write_text(f"{word}\n")
            fetcher.fetch()
        fetcher.close()
    assert server.authorizations == ["Bearer one", "Bearer two"]


def test_a_password_comes_from_its_file(tmp_path: Path) -> None:
    password = tmp_path / "password"
    password.write_text("pass word\n")
    with serving(page(TEXT)) as server:
        fetch(endpoint_at(server.url, username="me", password_file=str(password)))
    assert server.authorizations == [f"Basic {base64.b64encode(b'me:pass word').decode()}"]


@pytest.mark.parametrize("content", [None, "two words", "s\u00e9cret", ""])
def test_a_bad_token_file_is_named_and_its_content_is_not_told(
    tmp_path: Path, content: str | None
) -> None:
    path = tmp_path / "token"
    if content is not None:
        path.write_text(content, "utf-8")
    with serving(page(TEXT)) as server, pytest.raises(FetchError) as caught:
        fetch(endpoint_at(server.url, bearer_token_file=str(path)))
    assert str(path) in str(caught.value)
    assert not content or content not in str(caught.value)
    assert server.authorizations == []


@pytest.mark.parametrize(
    ("given", "url"),
    [
        ("localhost:9400", "http://localhost:9400/metrics"),
        ("http://h", "http://h/metrics"),
        ("https://h/x?y=1#z", "https://h/x?y=1"),
        ("http://[::1]:9400/metrics", "http://[::1]:9400/metrics"),
    ],
)
def test_a_url_is_completed(given: str, url: str) -> None:
    assert endpoint_at(given).url == url


@pytest.mark.parametrize(
    "url", ["", "ftp://h/metrics", "http://", "http://h:port", "http://h:99999", "http://[::1"]
)
def test_what_is_no_url_is_refused_with_what_is_allowed(url: str) -> None:
    with pytest.raises(ConfigError, match="scrape endpoint"):
        endpoint_at(url)


def test_a_refused_url_does_not_tell_its_password() -> None:
    with pytest.raises(ConfigError) as caught:
        endpoint_at("ftp://me:secret@h/metrics")
    assert "secret" not in str(caught.value)


def test_a_name_leaves_out_the_query() -> None:
    assert endpoint_at("http://h/federate?token=secret").name == "http://h/federate"
