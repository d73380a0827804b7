"""Heads and bodies of HTTP, well-formed and not."""

from __future__ import annotations

import gzip
from contextlib import suppress
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_ofu.net.http_message import (
    BadRequestError,
    ChunkedBody,
    PlainBody,
    gunzip,
    parse_head,
)

HOST = "Host: a"


def head(*lines: str, first: str = "POST /v1/metrics HTTP/1.1", host: str = HOST) -> bytes:
    return "\r\n".join([first, *([host] if host else []), *lines]).encode("latin-1")


def test_a_head_is_read() -> None:
    found = parse_head(head("Content-Length: 12", "Content-TYPE:  a/b ; c=d\t", "X: ", "x: 2"))
    assert (found.method, found.path, found.length) == ("POST", "/v1/metrics", 12)
    expected = {"host": "a", "content-length": "12", "content-type": "a/b ; c=d", "x": ", 2"}
    assert found.headers == expected
    assert found.keep_alive
    assert parse_head(head(first="GET /a?b=c HTTP/1.1")).path == "/a"


@pytest.mark.parametrize(
    ("target", "host", "path"),
    [
        ("/a", "a", "/a"),
        ("http://b:9/a?c", "b:9", "/a"),
        ("HTTP://b", "b", "/"),
        ("https://[::1]:9?/c", "[::1]:9", "/"),
        ("http://b//c", "b", "//c"),
    ],
)
def test_an_absolute_target_names_the_host_and_the_header_is_ignored(
    target: str, host: str, path: str
) -> None:
    found = parse_head(head(first=f"GET {target} HTTP/1.1"))
    assert (found.headers["host"], found.path) == (host, path)


def test_a_client_of_http_1_0_needs_no_host_and_is_not_told_to_go_on() -> None:
    found = parse_head(head("Expect: 100-continue", first="POST / HTTP/1.0", host=""))
    assert not found.expects_continue
    assert parse_head(head("Expect: 100-Continue")).expects_continue


@pytest.mark.parametrize(
    ("version", "connection", "keep_alive"),
    [
        ("1.1", "", True),
        ("1.1", "close", False),
        ("1.1", "TE, Close", False),
        ("1.0", "", False),
        ("1.0", "Keep-Alive", True),
    ],
)
def test_how_long_a_connection_lasts(version: str, connection: str, keep_alive: object) -> None:
    lines = [f"Connection: {connection}"] if connection else []
    assert parse_head(head(*lines, first=f"POST / HTTP/{version}")).keep_alive is keep_alive


GET = "GET / HTTP/1.1"
HOSTILE_HEADS = {
    "nothing": b"",
    "TLS on a port without it": b"\x16\x03\x01\x02\x00\x01\x00",
    "HTTP/2": b"PRI * HTTP/2.0",
    "HTTP/0.9": head(first="POST /v1/metrics"),
    "HTTP/2.0 over 1.1": head(first="POST /v1/metrics HTTP/2.0"),
    "lower-case version": head(first="POST /v1/metrics http/1.1"),
    "two spaces": head(first="POST  /v1/metrics HTTP/1.1"),
    "tab for a space": head(first="POST\t/v1/metrics HTTP/1.1"),
    "space at the end": head(first="POST /v1/metrics HTTP/1.1 "),
    "byte beyond ASCII in the target": head(first="POST /v1/met\x80rics HTTP/1.1"),
    "NUL in the target": head(first="GET /\x00 HTTP/1.1"),
    "fragment": head(first="GET /a#b HTTP/1.1"),
    "target without a slash": head(first="GET a HTTP/1.1"),
    "authority for a target": head(first="CONNECT a:1 HTTP/1.1"),
    "asterisk outside of OPTIONS": head(first="GET * HTTP/1.1"),
    "absolute target of another scheme": head(first="GET ftp://a/ HTTP/1.1"),
    "absolute target without a host": head(first="GET http:///a HTTP/1.1"),
    "absolute target with a user": head(first="GET http://b@a/ HTTP/1.1"),
    "absolute target without Host": head(first="GET http://a/ HTTP/1.1", host=""),
    "absolute target with two Hosts": head(HOST, first="GET http://a/ HTTP/1.1"),
    "no Host": head(first=GET, host=""),
    "two Hosts": head(HOST, first=GET),
    "two Hosts of other case": head("hOST: b", first=GET),
    "two Hosts of HTTP/1.0": head(HOST, first="GET / HTTP/1.0"),
    "two hosts in one": head(first=GET, host="Host: a, b"),
    "Host with a path": head(first=GET, host="Host: a/b"),
    "Host with a user": head(first=GET, host="Host: u@a"),
    "Host with a name for a port": head(first=GET, host="Host: a:b"),
    "Host beyond ASCII": head(first=GET, host="Host: \xe4"),
    "two lengths": head("Content-Length: 1", "Content-Length: 1"),
    "list of lengths": head("Content-Length: 1, 1"),
    "negative length": head("Content-Length: -1"),
    "length with a sign": head("Content-Length: +1"),
    "length with an underscore": head("Content-Length: 1_0"),
    "length in hexadecimal": head("Content-Length: 0x1"),
    "length of a petabyte": head("Content-Length: 1234567890123456"),
    "length and chunks": head("Content-Length: 1", "Transfer-Encoding: chunked"),
    "two codings": head("Transfer-Encoding: gzip, chunked"),
    "chunks twice": head("Transfer-Encoding: chunked", "Transfer-Encoding: chunked"),
    "chunks in HTTP/1.0": head("Transfer-Encoding: chunked", first="POST / HTTP/1.0"),
    "space before a colon": head("Transfer-Encoding : chunked"),
    "two tokens": head("Authorization: Bearer a", "Authorization: Bearer b"),
    "folded header": head("A: b", " folded"),
    "folded first header": head(" A: b"),
    "no colon": head("no colon"),
    "no name": head(": b"),
    "name in quotes": head('"A": b'),
    "LF alone": head("A: b\nB: c"),
    "CR alone": head("A: b\rB: c"),
    "NUL in a header": head("A: b\x00"),
    "escape in a header": head("A: b\x1b"),
    "101 headers": head(*["A: b"] * 101),
}


@pytest.mark.parametrize("raw", HOSTILE_HEADS.values(), ids=HOSTILE_HEADS)
def test_a_head_that_could_mean_two_things_is_refused(raw: bytes) -> None:
    with pytest.raises(BadRequestError) as caught:
        parse_head(raw)
    assert caught.value.status in (400, 431)


def test_spaces_in_a_header_cost_no_more_than_letters() -> None:
    """Steps of the pattern, not seconds: 2**24 spaces take for ever where they are parted."""
    value = "a" + " " * 2**24 + "b"
    assert parse_head(head(f"A: {value}")).headers["a"] == value


@given(st.binary(max_size=300))
def test_junk_never_breaks_the_head(raw: bytes) -> None:
    with suppress(BadRequestError):
        parse_head(raw)


def fed(body: PlainBody | ChunkedBody, raw: bytes, cuts: list[int]) -> tuple[bytes, bytes]:
    """The content, and what was left over, of a body that comes in pieces."""
    buffer, content = bytearray(), b""
    edges = [0, *sorted(min(cut, len(raw)) for cut in cuts), len(raw)]
    for start, end in pairwise(edges):
        buffer += raw[start:end]
        if not body.complete:
            content += body.feed(buffer)
    return content, bytes(buffer)


@given(st.lists(st.binary(min_size=1, max_size=40), max_size=5), st.lists(st.integers(0, 250)))
def test_chunks_are_put_together_however_they_come(chunks: list[bytes], cuts: list[int]) -> None:
    raw = b"".join(b"%x;a=b\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks)
    body = ChunkedBody()
    content, left = fed(body, raw + b"0\r\nTrailer: x\r\n\r\nPOST", cuts)
    assert (content, left, body.complete) == (b"".join(chunks), b"POST", True)


@given(st.binary(max_size=40), st.lists(st.integers(0, 50)))
def test_a_plain_body_ends_where_it_says(content: bytes, cuts: list[int]) -> None:
    body = PlainBody(len(content))
    assert fed(body, content + b"next", cuts) == (content, b"next")
    assert body.complete


HOSTILE_CHUNKS = {
    "length in letters": b"x\r\n",
    "negative length": b"-1\r\n",
    "no length": b"\r\n",
    "length in 0x": b"0x3\r\nabc",
    "length with an underscore": b"1_0\r\n",
    "length of 5 bytes": b"123456789\r\n",
    "longer than its length": b"3\r\nabcde\r\n",
    "LF after the chunk": b"3\r\nabc\n\n",
    "length without an end": b"1" * 300,
    "NUL in an extension": b"3;\x00\r\nabc",
    "LF in an extension": b"3;a\nb\r\nabc",
    "trailer without an end": b"0\r\n" + b"a: b\r\n" * 1000,
    "NUL in a trailer": b"0\r\na: \x00\r\n\r\n",
    "LF in a trailer": b"0\r\na: b\nc: d\r\n\r\n",
    "trailer without a colon": b"0\r\na\r\n\r\n",
    "folded trailer": b"0\r\na: b\r\n c\r\n\r\n",
    "request in a trailer": b"0\r\nGET / HTTP/1.1\r\n\r\n",
}


@pytest.mark.parametrize("raw", HOSTILE_CHUNKS.values(), ids=HOSTILE_CHUNKS)
def test_invalid_chunks_are_refused(raw: bytes) -> None:
    with pytest.raises(BadRequestError):
        ChunkedBody().feed(bytearray(raw))


HOSTILE_GZIP = {
    "not gzip": (b"hello", 400),
    "cut off": (gzip.compress(b"x" * 99)[:-9], 413),
    "cut off within the limit": (gzip.compress(b"x" * 9)[:-9], 400),
    "something else behind it": (gzip.compress(b"x") + b"hello", 400),
    "17 members": (gzip.compress(b"") * 17, 400),
    "a million members": (gzip.compress(b"") * 1_000_000, 400),
    "a byte too much": (gzip.compress(b"x" * 11), 413),
    "a byte too much in two members": (gzip.compress(b"x" * 5) + gzip.compress(b"x" * 6), 413),
    "bomb": (gzip.compress(bytes(10_000_000)), 413),
}


@pytest.mark.parametrize(("raw", "status"), HOSTILE_GZIP.values(), ids=HOSTILE_GZIP)
def test_hostile_gzip_is_refused_before_it_costs_much(raw: bytes, status: int) -> None:
    with pytest.raises(BadRequestError) as caught:
        gunzip(raw, 10)
    assert caught.value.status == status


def test_gzip_may_have_a_few_members_up_to_the_limit() -> None:
    assert gunzip(gzip.compress(b"abcde") * 2, 10) == b"abcdeabcde"
    assert gunzip(gzip.compress(b""), 0) == b""


@given(st.binary(max_size=100))
def test_junk_never_breaks_a_chunked_body(raw: bytes) -> None:
    with suppress(BadRequestError):
        ChunkedBody().feed(bytearray(raw))
