"""Heads and bodies of HTTP, well-formed and not."""

from __future__ import annotations

from contextlib import suppress
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_ofu.receive.http_message import BadRequestError, ChunkedBody, PlainBody, parse_head


def head(*lines: str, first: str = "POST /v1/metrics HTTP/1.1") -> bytes:
    return "\r\n".join([first, *lines]).encode("latin-1")


def test_a_head_is_read() -> None:
    found = parse_head(head("Content-Length: 12", "Content-TYPE:  a/b ; c=d\t", "X: ", "x: 2"))
    assert (found.method, found.path, found.length) == ("POST", "/v1/metrics", 12)
    assert found.headers == {"content-length": "12", "content-type": "a/b ; c=d", "x": ", 2"}
    assert found.keep_alive
    assert parse_head(head(first="GET /a?b=c HTTP/1.1")).path == "/a"


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


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"\x16\x03\x01\x02\x00\x01\x00",  # TLS on a port without it
        b"PRI * HTTP/2.0",
        head(first="POST /v1/metrics"),
        head(first="POST  /v1/metrics HTTP/1.1"),
        head(first="POST /v1/met\x80rics HTTP/1.1"),
        head("Content-Length: 1", "Content-Length: 1"),
        head("Content-Length: -1"),
        head("Content-Length: +1"),
        head("Content-Length: 1_0"),
        head("Content-Length: 0x1"),
        head("Content-Length: 1234567890123456"),
        head("Content-Length: 1", "Transfer-Encoding: chunked"),
        head("Transfer-Encoding: gzip, chunked"),
        head("Transfer-Encoding : chunked"),
        head("Authorization: Bearer a", "Authorization: Bearer b"),
        head("A: b", " folded"),
        head("no colon"),
        head("A: b\nB: c"),
        head("A: b\x00"),
        head(*["A: b"] * 101),
    ],
)
def test_a_head_that_could_mean_two_things_is_refused(raw: bytes) -> None:
    with pytest.raises(BadRequestError):
        parse_head(raw)


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


@pytest.mark.parametrize(
    "raw",
    [
        b"x\r\n",
        b"-1\r\n",
        b"\r\n",
        b"123456789\r\n",
        b"3\r\nabcde\r\n",
        b"3\r\nabc\n\n",
        b"1" * 300,
        b"0\r\n" + b"a: b\r\n" * 1000,
    ],
)
def test_chunks_that_are_none_are_refused(raw: bytes) -> None:
    with pytest.raises(BadRequestError):
        ChunkedBody().feed(bytearray(raw))


@given(st.binary(max_size=100))
def test_junk_never_breaks_a_chunked_body(raw: bytes) -> None:
    with suppress(BadRequestError):
        ChunkedBody().feed(bytearray(raw))
