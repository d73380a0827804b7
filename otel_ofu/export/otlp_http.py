"""OTLP over HTTP: one POST, and what its answer means.

Enters: bodies. Leaves: outcomes.
Source: OpenTelemetry protocol specification 1.9, OTLP/HTTP response.
"""

from __future__ import annotations

from otel_ofu.export.request import halves
from otel_ofu.export.responses import partial_success, status_message
from otel_ofu.export.settings import OtlpSettings
from otel_ofu.net.http_client import Response
from otel_ofu.outbox.batch import Body
from otel_ofu.outbox.outcome import Delivered, Outcome, Refused, TooLarge, Unavailable, short
from otel_ofu.outbox.posting import Poster, requested_delay_s

_RETRYABLE = (429, 502, 503, 504)
# An expired token, a wrong path, a proxy in between: somebody will fix it.
_FIXABLE = (401, 403, 404, 405, 407)
_TOO_LARGE = 413
_PROTOBUF = "application/x-protobuf"


class OtlpHttpTransport:
    """Keeps one connection open. ValueError at once for TLS files that cannot be used.

    A redirect is not followed and is no success: a login page would swallow everything. It is
    about the way, not about the body, so the body is kept and sent again; the same goes
    for a web page with status 200, and for credentials or a path that are not (or no longer) good.
    """

    def __init__(self, settings: OtlpSettings) -> None:
        self._settings = settings
        self._poster = Poster(settings.tls)
        self._zipped = settings.compression == "gzip"
        encoding = {"Content-Encoding": "gzip"} if self._zipped else {}
        kinds = {"Content-Type": _PROTOBUF, "Accept": _PROTOBUF}
        self._headers = {**settings.headers, **kinds, **encoding}

    @property
    def endpoint(self) -> str:
        return self._settings.shown_endpoint

    def send(self, body: Body, limit_s: float) -> Outcome:
        answer = self._poster.post(
            self._settings.endpoint,
            body.gzipped if self._zipped else body.raw(),
            self._headers,
            min(limit_s, self._settings.timeout_s),
        )
        return answer if isinstance(answer, Unavailable) else self._judged(answer, body.signal)

    def halves(self, body: Body) -> tuple[Body, Body] | None:
        return halves(body)

    def close(self) -> None:
        self._poster.close()

    def _judged(self, answer: Response, signal: str) -> Outcome:
        if answer.is_success:
            if answer.content_type == "text/html":
                return Unavailable(f"HTTP {answer.status} with a web page, not an answer of OTLP")
            return self._taken(answer.body if answer.content_type == _PROTOBUF else b"", signal)
        message = self._message(answer)
        if answer.status == _TOO_LARGE:
            return TooLarge(message)
        if answer.status in (*_RETRYABLE, *_FIXABLE):
            return Unavailable(message, requested_delay_s(answer))
        return Unavailable(message) if answer.is_redirect else Refused(message)

    def _taken(self, answer: bytes, signal: str) -> Outcome:
        rejected, message = partial_success(answer, signal)
        return Delivered(rejected, short(self._settings.redacted(message)))

    def _message(self, answer: Response) -> str:
        if answer.is_redirect:
            target = answer.location or "nowhere"
            return short(f"HTTP {answer.status}, a redirect to {target}; not followed")
        is_status = answer.content_type == _PROTOBUF
        text = status_message(answer.body) if is_status else answer.text
        head = f"HTTP {answer.status_line}"
        return short(self._settings.redacted(f"{head}: {text}" if text.strip() else head))
