"""One GET of a metrics page, bounded in time and size.

Enters: an `Endpoint`. Leaves: the text of its page, or a `FetchError` that names the endpoint.

Built on http.client, not on a larger client: the deadline is for the whole request, headers
included, and only who holds the socket can keep it. Redirects are not followed, proxies from the
environment are not used.
"""

from __future__ import annotations

import http.client
import socket
import ssl
from base64 import b64encode
from collections.abc import Callable, Iterator
from functools import partial
from urllib.parse import SplitResult, urlsplit

from otel_ofu.model import GapReason
from otel_ofu.model.clock import Clock
from otel_ofu.model.errors import SourceError
from otel_ofu.net.deadline import cut, deadline
from otel_ofu.net.secret_file import read_secret, read_token
from otel_ofu.sources.scrape.endpoint import Endpoint
from otel_ofu.sources.scrape.gunzip import Gunzip

CHUNK_BYTES = 65536
_HINTS = {
    401: "set username and password_file, or bearer_token_file",
    403: "the credentials are known but may not read the page",
    404: "no page at this path; exporters mostly use /metrics",
}


class FetchError(SourceError):
    """The endpoint gave no page; `reason` is for the gaps in place of its values."""

    def __init__(self, message: str, reason: GapReason = GapReason.FAILED) -> None:
        super().__init__(message)
        self.reason = reason


class Fetcher:
    """Fetches one endpoint again and again over one connection. Belongs to one thread."""

    def __init__(self, endpoint: Endpoint, clock: Clock) -> None:
        self._endpoint = endpoint
        self._clock = clock
        self._parts = urlsplit(endpoint.url)
        self._connection: http.client.HTTPConnection | None = None

    def fetch(self) -> str:
        """The page as text. FetchError if there is none within `timeout_s` and `limit_bytes`."""
        try:
            return self._page()
        except FetchError:
            self.close()
            raise
        except (OSError, http.client.HTTPException, ValueError) as error:
            self.close()
            raise self._error(_words(error, self._endpoint)) from error

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _page(self) -> str:
        until_s = self._clock.monotonic_s() + self._endpoint.timeout_s
        reused = self._connection is not None and self._connection.sock is not None
        try:
            return self._exchange(until_s)
        except (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError):
            # A kept connection that the server closed meanwhile is no failure of the server.
            if not reused:
                raise
            self.close()
            return self._exchange(until_s)

    def _exchange(self, until_s: float) -> str:
        headers = self._headers()
        connection = self._connected()
        left_s = max(0.0, until_s - self._clock.monotonic_s())
        with deadline(left_s, partial(cut, connection.sock)) as passed:
            try:
                connection.request("GET", _target(self._parts), headers=headers)
                with connection.getresponse() as response:
                    self._check_status(response)
                    body = b"".join(self._body(response))
            except (OSError, http.client.HTTPException, FetchError) as error:
                if passed.is_set():
                    raise TimeoutError from error
                raise
        if passed.is_set():
            raise TimeoutError
        return self._checked(body, response)

    def _connected(self) -> http.client.HTTPConnection:
        connection = self._connection or _connection(self._parts, self._endpoint)
        self._connection = connection
        if connection.sock is None:
            connection.connect()
        return connection

    def _headers(self) -> dict[str, str]:
        headers = {
            "Accept": "text/plain;version=0.0.4;q=1,text/plain;q=0.5",
            "Accept-Encoding": "gzip",
            "User-Agent": "otel-ofu",
        }
        endpoint = self._endpoint
        if endpoint.bearer_token_file:
            token = self._read(read_token, endpoint.bearer_token_file)
            headers["Authorization"] = f"Bearer {token}"
        elif endpoint.username:
            path = endpoint.password_file
            password = self._read(read_secret, path) if path else endpoint.password
            pair = f"{endpoint.username}:{password}".encode()
            headers["Authorization"] = f"Basic {b64encode(pair).decode('ascii')}"
        return headers

    def _read(self, read: Callable[[str], str], path: str) -> str:
        try:
            return read(path)
        except ValueError as error:
            raise self._error(str(error), GapReason.NOT_PERMITTED) from error

    def _check_status(self, response: http.client.HTTPResponse) -> None:
        if response.status == http.client.OK:
            return
        text = f"answered {response.status} {response.reason}".rstrip()
        location = response.getheader("Location")
        if location:
            target = urlsplit(location)
            where = f"{target.scheme}://{target.hostname}{target.path}"
            text += f" (to {where if target.hostname else target.path}); redirects are not followed"
        elif response.status in _HINTS:
            text += f"; {_HINTS[response.status]}"
        denied = response.status in (http.client.UNAUTHORIZED, http.client.FORBIDDEN)
        raise self._error(text, GapReason.NOT_PERMITTED if denied else GapReason.FAILED)

    def _body(self, response: http.client.HTTPResponse) -> Iterator[bytes]:
        encoding = (response.getheader("Content-Encoding") or "identity").strip().lower()
        if encoding not in ("identity", "gzip", "x-gzip"):
            raise self._error(f"sent Content-Encoding {encoding}; gzip and identity are read")
        unpacked = Gunzip() if encoding != "identity" else None
        left = self._endpoint.limit_bytes
        while raw := response.read(CHUNK_BYTES):
            pieces = unpacked.pieces(raw, CHUNK_BYTES) if unpacked else (raw,)
            for piece in pieces:
                left -= len(piece)
                if left < 0:
                    limit = self._endpoint.limit_bytes
                    raise self._error(f"the page is larger than {limit} bytes (max_body)")
                yield piece
        if response.length or (unpacked and not unpacked.is_complete):
            raise self._error("the page was cut off: its end is missing")

    def _checked(self, body: bytes, response: http.client.HTTPResponse) -> str:
        if not body.strip():
            raise self._error(
                "the page is empty (an exporter that is starting or reloading answers so)",
                GapReason.NOT_READY,
            )
        content_type = (response.getheader("Content-Type") or "").lower()
        if "html" in content_type or body.lstrip()[:1] == b"<":
            raise self._error("answered with HTML, not metrics; exporters mostly use /metrics")
        if not body.endswith(b"\n"):
            raise self._error("the page was cut off: its last line has no end")
        return body.decode("utf-8", errors="replace")

    def _error(self, text: str, reason: GapReason = GapReason.FAILED) -> FetchError:
        return FetchError(f"{self._endpoint.name}: {text}", reason)


def _connection(parts: SplitResult, endpoint: Endpoint) -> http.client.HTTPConnection:
    host, timeout_s = parts.hostname or "", endpoint.timeout_s
    if parts.scheme == "http":
        return http.client.HTTPConnection(host, parts.port, timeout=timeout_s)
    context = ssl.create_default_context(cafile=endpoint.ca_file or None)
    return http.client.HTTPSConnection(host, parts.port, timeout=timeout_s, context=context)


def _target(parts: SplitResult) -> str:
    return f"{parts.path or '/'}?{parts.query}" if parts.query else parts.path or "/"


def _words(error: Exception, endpoint: Endpoint) -> str:
    match error:
        case TimeoutError():
            text = f"no complete answer within {endpoint.timeout_s:g} s"
        case ssl.SSLCertVerificationError():
            text = f"its certificate is not trusted ({error.verify_message}); set ca_file"
        case FileNotFoundError() if endpoint.ca_file:
            text = f"{endpoint.ca_file}: no such file (ca_file)"
        case socket.gaierror():
            text = "the host name is not known"
        case ConnectionRefusedError():
            text = "connection refused; is the exporter running?"
        case http.client.IncompleteRead():
            text = "the page was cut off: its end is missing"
        case OSError():
            text = error.strerror or str(error) or type(error).__name__
        case _:
            text = f"not an HTTP answer that can be read ({type(error).__name__}: {error})"
    return text
