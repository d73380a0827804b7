"""HTTP/1.1 requests taken apart, strictly: the head, and a chunked body.

Enters: bytes. Leaves: a `Head`, pieces of a body, or a BadRequestError with the status to answer.
Source: RFC 9112.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

_MOST_HEADERS = 100
_REQUEST_LINE = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]{1,32}) ([!-~]{1,8192}) HTTP/1\.([01])")
_HEADER = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([^\x00\r\n]*?)[ \t]*")
_LENGTH = re.compile(r"[0-9]{1,15}")
_CHUNK = re.compile(rb"([0-9A-Fa-f]{1,8})[ \t]*(?:;[^\x00\r\n]*)?")
_LONGEST_CHUNK_LINE = 256
_LONGEST_TRAILER = 4096


class BadRequestError(ValueError):
    """No HTTP request that this server takes; `status` is what to answer."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True, slots=True)
class Head:
    """`length` None: the body is chunked. Header names are in lower case."""

    method: str
    path: str
    headers: Mapping[str, str]
    keep_alive: bool
    length: int | None

    @property
    def expects_continue(self) -> bool:
        return self.headers.get("expect", "").lower() == "100-continue"


def parse_head(raw: bytes) -> Head:
    """The head of a request, without the empty line that ends it."""
    first, *lines = raw.split(b"\r\n")
    found = _REQUEST_LINE.fullmatch(first)
    if found is None:
        raise BadRequestError(400, "no HTTP/1.1 request")
    if len(lines) > _MOST_HEADERS:
        raise BadRequestError(431, f"more than {_MOST_HEADERS} headers")
    headers = _headers(lines)
    options = {part.strip().lower() for part in headers.get("connection", "").split(",")}
    keep_alive = "close" not in options and (found[3] == b"1" or "keep-alive" in options)
    path = found[2].decode("ascii").partition("?")[0]
    return Head(found[1].decode("ascii"), path, headers, keep_alive, _length(headers))


def _headers(lines: list[bytes]) -> dict[str, str]:
    headers: dict[str, str] = {}
    for line in lines:
        found = _HEADER.fullmatch(line)
        if found is None:
            raise BadRequestError(400, "a header that is none")
        name, value = found[1].decode("ascii").lower(), found[2].decode("latin-1")
        if name in headers:
            if name in ("content-length", "transfer-encoding", "authorization"):
                raise BadRequestError(400, f"{name} twice")
            value = f"{headers[name]}, {value}"
        headers[name] = value
    return headers


def _length(headers: Mapping[str, str]) -> int | None:
    """Bytes of the body. One that could be understood in two ways is refused."""
    coding, length = headers.get("transfer-encoding"), headers.get("content-length")
    if coding is not None:
        if coding.lower() != "chunked" or length is not None:
            raise BadRequestError(400, "allowed: Transfer-Encoding: chunked, or Content-Length")
        return None
    if length is None:
        return 0
    if not _LENGTH.fullmatch(length):
        raise BadRequestError(400, "Content-Length is no number")
    return int(length)


class PlainBody:
    """A body of known length."""

    def __init__(self, length: int) -> None:
        self._left = length
        self.complete = length == 0

    def feed(self, buffer: bytearray) -> bytes:
        """Takes what belongs to the body out of the buffer."""
        piece = bytes(buffer[: self._left])
        del buffer[: self._left]
        self._left -= len(piece)
        self.complete = not self._left
        return piece


class ChunkedBody:
    """A body in chunks, each with its length."""

    def __init__(self) -> None:
        self._left = 0
        self._in_trailer = False
        self._trailer = 0
        self.complete = False

    def feed(self, buffer: bytearray) -> bytes:
        """Takes what belongs to the body out of the buffer. Raises BadRequestError."""
        pieces: list[bytes] = []
        while buffer and not self.complete:
            if self._left:
                pieces.append(self._content(buffer))
                continue
            line = self._line(buffer)
            if line is None:
                break
            self._next(line)
        return b"".join(pieces)

    def _content(self, buffer: bytearray) -> bytes:
        """Of a chunk; `_left` counts the CR LF after it as well."""
        take = min(len(buffer), self._left)
        piece = bytes(buffer[: min(take, max(0, self._left - 2))])
        end = bytes(buffer[len(piece) : take])
        if end and not b"\r\n".startswith(end) and not b"\r\n".endswith(end):
            raise BadRequestError(400, "a chunk is longer than it said")
        del buffer[:take]
        self._left -= take
        return piece

    def _line(self, buffer: bytearray) -> bytes | None:
        end = buffer.find(b"\r\n")
        if end > _LONGEST_CHUNK_LINE or (end < 0 and len(buffer) > _LONGEST_CHUNK_LINE):
            raise BadRequestError(400, "the length of a chunk does not end")
        if end < 0:
            return None
        line = bytes(buffer[:end])
        del buffer[: end + 2]
        return line

    def _next(self, line: bytes) -> None:
        if self._in_trailer:
            self._trailer += len(line) + 2
            self.complete = not line
            if self._trailer > _LONGEST_TRAILER:
                raise BadRequestError(400, "the trailer does not end")
            return
        found = _CHUNK.fullmatch(line)
        if found is None:
            raise BadRequestError(400, "the length of a chunk is no number")
        length = int(found[1], 16)
        self._in_trailer = not length
        self._left = length + 2 if length else 0
