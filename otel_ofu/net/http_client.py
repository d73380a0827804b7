"""HTTP as a client: one exchange at a time over one kept connection, bounded in time and size.

Enters: a URL, headers and bytes. Leaves: a `Response`, whatever its status, or an `HttpError` in
plain text without the URL, which may hold a secret.

The deadline is for the whole exchange, from the first SYN to the last byte; only who holds the
socket can keep it, so this is built on http.client (decision 52). Redirects are not followed, and
a ~/.netrc is not read.
"""

from __future__ import annotations

import http.client
import re
import select
import socket
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from types import MappingProxyType
from typing import Literal
from urllib.parse import quote, urlsplit

from otel_ofu.net.connecting import (
    ConnectionTarget,
    SocketDeadline,
    deadline,
    open_connection,
    proxy_for,
)
from otel_ofu.net.http_message import Gunzip, GunzipError
from otel_ofu.net.tls import TlsError, TlsFiles, client_context

# Starting value: a few of these are in memory at a time.
_CHUNK_BYTES = 65_536
_NO_ENVIRONMENT: Mapping[str, str] = MappingProxyType({})
# All that may stand in a URL, so that only what may not is encoded.
_URL_CHARACTERS = "!#$%&'()*+,/:;=?@[]~"
_USER = re.compile(r"(?<=//)[^/]*@")

Method = Literal["GET", "POST"]


class HttpFailure(Enum):
    """Why there is no answer, for callers that add a hint."""

    TIMEOUT = auto()
    NO_HOST = auto()
    REFUSED = auto()
    UNTRUSTED = auto()
    TLS_FILES = auto()
    CUT_OFF = auto()
    OTHER = auto()


_FAILURES = (
    (ssl.SSLCertVerificationError, HttpFailure.UNTRUSTED),
    (TlsError, HttpFailure.TLS_FILES),
    (socket.gaierror, HttpFailure.NO_HOST),
    (ConnectionRefusedError, HttpFailure.REFUSED),
    (http.client.IncompleteRead, HttpFailure.CUT_OFF),
)


class HttpError(Exception):
    """There is no complete answer. The message has neither the URL nor a header."""

    def __init__(self, message: str, failure: HttpFailure = HttpFailure.OTHER) -> None:
        super().__init__(message)
        self.failure = failure


@dataclass(frozen=True, slots=True)
class Response:
    """An answer. `headers` have names in lower case; `body` is unpacked.

    `truncated`: the body is longer than the client's limit, and this is its beginning.
    """

    status: int
    reason: str
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)
    truncated: bool = False

    @property
    def content_type(self) -> str:
        """The media type in lower case, without parameters."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    @property
    def text(self) -> str:
        """The body for people; empty for a web page, which is none."""
        return "" if self.content_type == "text/html" else self.body.decode("utf-8", "replace")

    @property
    def status_line(self) -> str:
        """Such as `404 Not Found`."""
        return f"{self.status} {self.reason}".rstrip()

    @property
    def is_success(self) -> bool:
        return 200 <= self.status < 300  # noqa: PLR2004 - HTTP: success

    @property
    def is_redirect(self) -> bool:
        return 300 <= self.status < 400  # noqa: PLR2004 - HTTP: redirection

    @property
    def location(self) -> str:
        """Where a redirect points, without a user, query or fragment, which may hold a secret."""
        plain = re.split(r"[?#]", self.headers.get("location", ""), maxsplit=1)[0]
        return _USER.sub("", plain, count=1)


class HttpClient:
    """For one thread at a time. `environ`: where the variables for a proxy are, if one is used.

    The TLS files are read when connecting.
    """

    def __init__(
        self,
        tls: TlsFiles | None = None,
        *,
        limit_bytes: int,
        environ: Mapping[str, str] = _NO_ENVIRONMENT,
    ) -> None:
        self._tls = tls or TlsFiles()
        self._limit_bytes = limit_bytes
        self._environ = environ
        self._origin = ConnectionTarget(secure=False, host="", port=0)
        self._connection: http.client.HTTPConnection | None = None

    def get(self, url: str, headers: Mapping[str, str], timeout_s: float) -> Response:
        """Raises HttpError. `timeout_s` is for all of it."""
        return self._bounded(_Request("GET", url, None, headers), timeout_s)

    def post(self, url: str, data: bytes, headers: Mapping[str, str], timeout_s: float) -> Response:
        """Raises HttpError. `timeout_s` is for all of it."""
        return self._bounded(_Request("POST", url, data, headers), timeout_s)

    def close(self) -> None:
        """May be called twice; the next request connects again."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _bounded(self, request: _Request, timeout_s: float) -> Response:
        cutter = SocketDeadline(timeout_s)
        late = HttpError(f"no complete answer within {timeout_s:g} s", HttpFailure.TIMEOUT)
        with deadline(timeout_s, cutter.shut) as passed:
            try:
                response = self._sent(request, cutter)
            except (OSError, http.client.HTTPException, ValueError, HttpError) as error:
                self.close()
                cutter.close()
                is_late = passed.is_set() or isinstance(error, TimeoutError)
                # Not the error itself: its text may have the URL or a header in them.
                raise late if is_late else _error(error) from None
        if passed.is_set():  # what was cut may look like an end
            self.close()
            raise late
        return response

    def _sent(self, request: _Request, cutter: SocketDeadline) -> Response:
        origin = _origin(request.url, self._environ)
        kept = self._kept(origin)
        try:
            return self._exchange(kept or self._opened(origin, cutter), request, cutter)
        except (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError):
            # A kept connection that the server closed meanwhile is no failure of the server; a
            # POST is not sent twice, as the server may have acted on the first.
            if kept is None or request.method != "GET":
                raise
            return self._exchange(self._opened(origin, cutter), request, cutter)

    def _kept(self, origin: ConnectionTarget) -> http.client.HTTPConnection | None:
        """The connection of the last exchange, if it goes there and is still open."""
        connection = self._connection
        if connection is None or connection.sock is None or origin != self._origin:
            return None
        return None if _is_readable(connection.sock) else connection

    def _opened(
        self, origin: ConnectionTarget, cutter: SocketDeadline
    ) -> http.client.HTTPConnection:
        self.close()
        context = client_context(self._tls) if origin.secure else None
        self._connection = open_connection(origin, context, cutter)
        self._origin = origin
        return self._connection

    def _exchange(
        self, connection: http.client.HTTPConnection, request: _Request, cutter: SocketDeadline
    ) -> Response:
        cutter.use(connection.sock)
        is_whole = _send(connection, request, self._origin)
        with connection.getresponse() as answer:
            body, truncated = _body(answer, self._limit_bytes)
            headers = {name.lower(): value for name, value in answer.headers.items()}
        if truncated or not is_whole:
            self.close()
        return Response(answer.status, answer.reason or "", headers, body, truncated)


@dataclass(frozen=True, slots=True)
class _Request:
    method: Method
    url: str
    data: bytes | None
    headers: Mapping[str, str]


def _origin(url: str, environ: Mapping[str, str]) -> ConnectionTarget:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("no URL of HTTP")
    port = parts.port or (443 if parts.scheme == "https" else 80)
    proxy = proxy_for(environ, parts.scheme, parts.hostname, port)
    return ConnectionTarget(parts.scheme == "https", parts.hostname, port, proxy)


def _send(
    connection: http.client.HTTPConnection, request: _Request, origin: ConnectionTarget
) -> bool:
    """Whether all of it was taken: a server may answer (413) and not read the rest."""
    headers = {"User-Agent": "otel-ofu", "Accept-Encoding": "gzip", **request.headers}
    parts = urlsplit(request.url)
    target = quote(parts._replace(scheme="", netloc="", fragment="").geturl(), _URL_CHARACTERS)
    target = target if target.startswith("/") else f"/{target}"
    if origin.proxy and not origin.secure:  # a proxy that reads the request, not a tunnel
        headers |= origin.proxy_headers
        target = f"http://{parts.netloc.rpartition('@')[2]}{target}"
    try:
        connection.request(request.method, target, request.data, headers)
    except (BrokenPipeError, ConnectionResetError):
        return False
    return True


def _body(answer: http.client.HTTPResponse, limit_bytes: int) -> tuple[bytes, bool]:
    """The unpacked body, and whether there is more of it than that."""
    encoding = (answer.getheader("Content-Encoding") or "identity").strip().lower()
    if encoding not in ("identity", "gzip", "x-gzip"):
        raise HttpError(f"sent Content-Encoding {encoding}; gzip and identity are read")
    unpacked = Gunzip() if encoding != "identity" else None
    found: list[bytes] = []
    left = limit_bytes
    while raw := answer.read(_CHUNK_BYTES):
        for part in unpacked.parts(raw, _CHUNK_BYTES) if unpacked else (raw,):
            found.append(part[:left])
            left -= len(part)
            if left < 0:
                return b"".join(found), True
    if answer.length or (unpacked and found and not unpacked.is_complete):
        raise http.client.IncompleteRead(b"")
    return b"".join(found), False


def _is_readable(sock: socket.socket) -> bool:
    """Between two exchanges a server has nothing to send but the end of the connection."""
    poll = select.poll()  # `select` ends at descriptor 1023
    poll.register(sock, select.POLLIN)
    return bool(poll.poll(0))


def _error(error: Exception) -> HttpError:
    if isinstance(error, HttpError):
        return error
    failure = next((f for kind, f in _FAILURES if isinstance(error, kind)), HttpFailure.OTHER)
    return HttpError(_of_system(error) if isinstance(error, OSError) else _text(error), failure)


def _of_system(error: OSError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"TLS: the server's certificate is not trusted: {error.verify_message}"
    return error.strerror or f"the connection broke ({type(error).__name__})"


def _text(error: Exception) -> str:
    match error:
        case TlsError() | GunzipError():
            return str(error)
        case http.client.IncompleteRead():
            return "the answer was cut off: its end is missing"
        case http.client.InvalidURL() | ValueError():
            return f"no valid request can be made of the settings ({type(error).__name__})"
        case _:
            return f"not an HTTP answer that can be read ({type(error).__name__})"
