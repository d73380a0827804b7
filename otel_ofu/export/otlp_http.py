"""OTLP over HTTP: one POST, and what its answer means.

Enters: bodies. Leaves: outcomes.
Source: OpenTelemetry protocol specification 1.9, OTLP/HTTP response.
"""

from __future__ import annotations

import time
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING

from otel_ofu.export.body import Body
from otel_ofu.export.outcome import (
    MOST_PATIENCE_S,
    Delivered,
    Outcome,
    Refused,
    TooLarge,
    Unavailable,
    short,
)
from otel_ofu.export.settings import OtlpSettings, check_tls_files
from otel_ofu.export.wire import partial_success, status_message

if TYPE_CHECKING:
    import requests

_RETRYABLE = (429, 502, 503, 504)
_TOO_LARGE = 413
_MOST_ANSWER_BYTES = 64 * 1024
_PROTOBUF = "application/x-protobuf"


class HttpTransport:
    """Keeps one connection open. ValueError at once for TLS files that are no use.

    A redirect is not followed and is no success: a login page would swallow everything. It says
    something about the way, not about the body, so the body is kept and sent again; the same goes
    for a web page with status 200.
    """

    def __init__(self, settings: OtlpSettings) -> None:
        check_tls_files(settings)
        self._settings = settings
        self._session: requests.Session | None = None

    @property
    def place(self) -> str:
        return self._settings.place

    def send(self, body: Body, limit_s: float) -> Outcome:
        import requests  # noqa: PLC0415 - 150 ms that only this transport needs

        session = self._opened()
        timeout_s = min(limit_s, self._settings.timeout_s)
        zipped = self._settings.compression == "gzip"
        try:
            with session.post(
                self._settings.endpoint,
                data=body.gzipped if zipped else body.raw(),
                headers={"Content-Encoding": "gzip"} if zipped else None,
                timeout=timeout_s,
                verify=self._settings.ca_file or True,
                allow_redirects=False,
                stream=True,
            ) as response:
                return self._judged(response, body.signal)
        except (requests.RequestException, OSError) as error:
            self.close()
            return Unavailable(_words(error, timeout_s))

    def close(self) -> None:
        if self._session is not None:
            self._session.close()
            self._session = None

    def _opened(self) -> requests.Session:
        import requests  # noqa: PLC0415 - as above

        if self._session is None:
            session = requests.Session()
            session.auth = _no_auth
            session.headers.update(self._settings.headers)
            session.headers.update({"Content-Type": _PROTOBUF, "Accept": _PROTOBUF})
            if self._settings.cert_file:
                key = self._settings.key_file or self._settings.cert_file
                session.cert = (self._settings.cert_file, key)
            self._session = session
        return self._session

    def _judged(self, response: requests.Response, signal: str) -> Outcome:
        status = response.status_code
        answer = _beginning(response)
        kind = response.headers.get("Content-Type", "").partition(";")[0].strip().lower()
        if 200 <= status < 300:  # noqa: PLR2004 - HTTP: success
            if kind == "text/html":
                return Unavailable(f"HTTP {status} with a web page, not an answer of OTLP")
            return self._taken(answer if kind == _PROTOBUF else b"", signal)
        message = self._said(status, kind, answer, response)
        if status == _TOO_LARGE:
            return TooLarge(message)
        if status in _RETRYABLE:
            return Unavailable(message, retry_after_s(response.headers.get("Retry-After")))
        return Unavailable(message) if 300 <= status < 400 else Refused(message)  # noqa: PLR2004 - HTTP: redirection

    def _taken(self, answer: bytes, signal: str) -> Outcome:
        rejected, message = partial_success(answer, signal)
        return Delivered(rejected, short(self._settings.redacted(message)))

    def _said(self, status: int, kind: str, answer: bytes, response: requests.Response) -> str:
        if 300 <= status < 400:  # noqa: PLR2004 - HTTP: redirection
            target = response.headers.get("Location", "").partition("?")[0]
            return short(f"HTTP {status}, a redirect to {target or 'nowhere'}; not followed")
        if kind == _PROTOBUF:
            text = status_message(answer)
        else:
            text = "" if kind == "text/html" else answer.decode("utf-8", "replace")
        head = f"HTTP {status} {response.reason or ''}".strip()
        return short(self._settings.redacted(f"{head}: {text}" if text.strip() else head))


def _beginning(response: requests.Response) -> bytes:
    """As much of the answer as is of interest; a server may send without an end."""
    found = b""
    for chunk in response.iter_content(_MOST_ANSWER_BYTES):
        found += chunk
        if len(found) >= _MOST_ANSWER_BYTES:
            break
    return found


def retry_after_s(value: str | None, now_s: float | None = None) -> float | None:
    """Seconds that a Retry-After header asks for, in [0, 300]; None if it says nothing."""
    if not value:
        return None
    try:
        seconds = float(value) if value.strip().isdigit() else _until_s(value, now_s)
    except (ValueError, TypeError, OverflowError):
        return None
    return min(max(seconds, 0.0), MOST_PATIENCE_S)


def _until_s(date: str, now_s: float | None) -> float:
    return parsedate_to_datetime(date).timestamp() - (time.time() if now_s is None else now_s)


def _no_auth(request: requests.PreparedRequest) -> requests.PreparedRequest:
    """Keeps a ~/.netrc from putting its own Authorization over the configured one."""
    return request


def _words(error: BaseException, timeout_s: float) -> str:
    """The innermost cause in its own words; those of the outer ones repeat the URL."""
    causes = _causes(error)
    if any(isinstance(cause, TimeoutError) for cause in causes):
        return f"no answer within {timeout_s:g} s"
    for cause in causes:
        if verdict := getattr(cause, "verify_message", ""):
            return f"TLS: the server's certificate is not trusted: {verdict}"
        if isinstance(cause, OSError) and (cause.strerror or getattr(cause, "reason", "")):
            return str(cause.strerror or getattr(cause, "reason", ""))
    return f"the connection broke ({type(error).__name__})"


def _causes(error: BaseException) -> list[BaseException]:
    """From the innermost to the outermost."""
    chain: list[BaseException] = []
    found: BaseException | None = error
    while found is not None and found not in chain:
        chain.insert(0, found)
        found = found.__cause__ or found.__context__
    return chain
