"""HTTP/1.1 requests taken apart, strictly: the head, a body with its length or in chunks, gzip.

Enters: bytes. Leaves: a `RequestHead`, content, or a BadRequestError with the status to answer.
Gzip comes in parts of bounded size, so that whoever takes them, client or server, can stop in time.
Source: RFC 9110, RFC 9112.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

_WINDOW_BITS = 31
"""The largest window, and a header of gzip. Source: the manual of zlib, inflateInit2."""


class GunzipError(ValueError):
    """The bytes are not gzip."""


class Gunzip:
    """Unpacks gzip in bounded parts, so that a small body cannot fill the memory."""

    def __init__(self) -> None:
        self._member = zlib.decompressobj(wbits=_WINDOW_BITS)
        self.members = 1
        """How many have begun; each costs a copy of all that follows."""

    @property
    def is_complete(self) -> bool:
        return self._member.eof

    def parts(self, raw: bytes, part_bytes: int) -> Iterator[bytes]:
        """What `raw` adds, in parts of at most `part_bytes`. GunzipError if it is not gzip."""
        while raw:
            if self._member.eof:
                self._member = zlib.decompressobj(wbits=_WINDOW_BITS)
                self.members += 1
            try:
                yield self._member.decompress(raw, part_bytes)
            except zlib.error as error:
                raise GunzipError(f"broken gzip: {error}") from error
            raw = self._member.unconsumed_tail or self._member.unused_data


# Starting value: browsers send about 20, exporters 8.
_MOST_HEADERS = 100
# RFC 9112, 3: servers should take request lines of 8,000 bytes.
_REQUEST_LINE = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]{1,32}) ([!-~]{1,8192}) HTTP/1\.([01])")
# No white space is matched before and after the value: the pattern would try each way to part it,
# which took 2.6 s for 16 KiB of spaces.
_FIELD = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):([\t -~\x80-\xff]*)")
_HOST = re.compile(r"(?:[A-Za-z0-9._~!$&'()*+,;=%-]*|\[[0-9A-Fa-f:.]+\])(?::[0-9]{0,5})?")
_ABSOLUTE = re.compile(r"https?://([^/?#]*)([^#]*)", re.IGNORECASE)
# Two of these could be understood in two ways.
_ONCE = ("content-length", "transfer-encoding", "authorization", "host")
_LENGTH = re.compile(r"[0-9]{1,15}")
_CHUNK = re.compile(rb"([0-9A-Fa-f]{1,8})[ \t]*(?:;[\t -~\x80-\xff]*)?")
# Starting values: an extension of a chunk, and a trailer, are of no use to any handler.
_LONGEST_CHUNK_LINE = 256
_LONGEST_TRAILER = 4096
# Starting value: what is decompressed in one go, beyond which memory may not pass its limit.
_INFLATED_BYTES = 4 * 2**20
# Starting value: exporters send one.
_MOST_GZIP_MEMBERS = 16


class BadRequestError(ValueError):
    """A request that this server does not take; `status` is what to answer."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True, slots=True)
class RequestHead:
    """`length` None: the body is chunked. Header names are in lower case."""

    method: str
    path: str
    headers: Mapping[str, str]
    keep_alive: bool
    length: int | None
    expects_continue: bool = False


def parse_head(raw: bytes) -> RequestHead:
    """The head of a request, without the empty line that ends it."""
    first, *lines = raw.split(b"\r\n")
    found = _REQUEST_LINE.fullmatch(first)
    if found is None:
        raise BadRequestError(400, "invalid HTTP/1.1 request line")
    if len(lines) > _MOST_HEADERS:
        raise BadRequestError(431, f"more than {_MOST_HEADERS} headers")
    headers, is_1_1 = _headers(lines), found[3] == b"1"
    method = found[1].decode("ascii")
    path = _path(method, found[2].decode("ascii"), headers, is_1_1=is_1_1)
    options = {part.strip().lower() for part in headers.get("connection", "").split(",")}
    keep_alive = "close" not in options and (is_1_1 or "keep-alive" in options)
    expects = is_1_1 and headers.get("expect", "").lower() == "100-continue"
    return RequestHead(method, path, headers, keep_alive, _length(headers, is_1_1=is_1_1), expects)


def _headers(lines: list[bytes]) -> dict[str, str]:
    headers: dict[str, str] = {}
    for line in lines:
        found = _FIELD.fullmatch(line)
        if found is None:
            raise BadRequestError(400, "invalid header")
        name, value = found[1].decode("ascii").lower(), found[2].strip(b" \t").decode("latin-1")
        if name in headers:
            if name in _ONCE:
                raise BadRequestError(400, f"more than one {name} header")
            value = f"{headers[name]}, {value}"
        headers[name] = value
    return headers


def _path(method: str, target: str, headers: dict[str, str], *, is_1_1: bool) -> str:
    """The path of the target; its authority, where it has one, takes the place of `Host`.

    Source: RFC 9112, 3.2: `Host` is required also of a target in absolute form, and then ignored.
    """
    host = headers.get("host", "" if not is_1_1 else None)
    if host is None:
        raise BadRequestError(400, "no Host header")
    absolute = None if target.startswith("/") else _ABSOLUTE.fullmatch(target)
    if absolute is not None:
        host = headers["host"] = absolute[1]
        target = absolute[2] if absolute[2].startswith("/") else f"/{absolute[2]}"
    if not _HOST.fullmatch(host) or (absolute is not None and not host):
        raise BadRequestError(400, "invalid host")
    if "#" in target or not (target.startswith("/") or (method, target) == ("OPTIONS", "*")):
        raise BadRequestError(400, "invalid request target")
    return target.partition("?")[0]


def _length(headers: Mapping[str, str], *, is_1_1: bool) -> int | None:
    """Bytes of the body. One that could be understood in two ways is refused."""
    coding, length = headers.get("transfer-encoding"), headers.get("content-length")
    if coding is not None:
        if coding.lower() != "chunked" or length is not None or not is_1_1:
            raise BadRequestError(400, "allowed: Transfer-Encoding: chunked, or Content-Length")
        return None
    if length is None:
        return 0
    if not _LENGTH.fullmatch(length):
        raise BadRequestError(400, "invalid Content-Length")
    return int(length)


def gunzip(raw: bytes, limit: int) -> bytes:
    """The content of a gzip body. BadRequestError 400 or, as soon as that is known, 413.

    Memory never exceeds the limit by more than 4 MiB, whatever the body holds.
    """
    unpacked, found, left = Gunzip(), list[bytes](), limit
    try:
        for part in unpacked.parts(raw, _INFLATED_BYTES):
            found.append(part)
            left -= len(part)
            if left < 0:
                message = f"the body has more than {limit} bytes after decompression"
                raise BadRequestError(413, message)
            if unpacked.members > _MOST_GZIP_MEMBERS:
                message = f"the body has more than {_MOST_GZIP_MEMBERS} gzip members"
                raise BadRequestError(400, message)
    except GunzipError as error:
        raise BadRequestError(400, "the body is not gzip") from error
    if not unpacked.is_complete:
        raise BadRequestError(400, "the body ends in the middle of its gzip")
    return b"".join(found)


class PlainBody:
    """A body of known length."""

    def __init__(self, length: int) -> None:
        self._left = length
        self.complete = length == 0

    def feed(self, buffer: bytearray) -> bytes:
        """Takes what belongs to the body out of the buffer."""
        part = bytes(buffer[: self._left])
        del buffer[: self._left]
        self._left -= len(part)
        self.complete = not self._left
        return part


class ChunkedBody:
    """A body in chunks, each with its length."""

    def __init__(self) -> None:
        self._left = 0
        self._in_trailer = False
        self._trailer = 0
        self.complete = False

    def feed(self, buffer: bytearray) -> bytes:
        """Takes what belongs to the body out of the buffer. Raises BadRequestError."""
        parts: list[bytes] = []
        while buffer and not self.complete:
            if self._left:
                parts.append(self._content(buffer))
                continue
            line = self._line(buffer)
            if line is None:
                break
            self._next(line)
        return b"".join(parts)

    def _content(self, buffer: bytearray) -> bytes:
        """Of a chunk; `_left` counts the CR LF after it as well."""
        take = min(len(buffer), self._left)
        part = bytes(buffer[: min(take, max(0, self._left - 2))])
        end = bytes(buffer[len(part) : take])
        if end and not b"\r\n".startswith(end) and not b"\r\n".endswith(end):
            raise BadRequestError(400, "a chunk is longer than its length")
        del buffer[:take]
        self._left -= take
        return part

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
            self._check_trailer(line)
            self.complete = not line
            return
        found = _CHUNK.fullmatch(line)
        if found is None:
            raise BadRequestError(400, "invalid length of a chunk")
        length = int(found[1], 16)
        self._in_trailer = not length
        self._left = length + 2 if length else 0

    def _check_trailer(self, line: bytes) -> None:
        """No handler reads trailers; what no header may hold, no trailer may hold either."""
        self._trailer += len(line) + 2
        if self._trailer > _LONGEST_TRAILER:
            raise BadRequestError(400, "the trailer does not end")
        if line and not _FIELD.fullmatch(line):
            raise BadRequestError(400, "invalid trailer")
