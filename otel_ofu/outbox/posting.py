"""One HTTP POST of the outbox: the answer as it is, or why there was none.

Enters: a URL, bytes, headers. Leaves: a `Response`, or `Unavailable` in plain text. The proxies of
the environment are used, as OTLP exporters and webhooks are often behind one.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime

from otel_ofu.net.http_client import HttpClient, HttpError, HttpFailure, Response
from otel_ofu.net.tls import TlsFiles, check_tls_files
from otel_ofu.outbox.outcome import MAX_RETRY_AFTER_S, Unavailable

# Starting value: an answer of OTLP or of a webhook has a few hundred bytes.
ANSWER_BYTES = 64 * 1024


class Poster:
    """Keeps one connection open. ValueError at once for TLS files that cannot be used."""

    def __init__(self, tls: TlsFiles) -> None:
        check_tls_files(tls)
        self._client = HttpClient(tls, limit_bytes=ANSWER_BYTES, environ=os.environ)

    def post(
        self, url: str, data: bytes, headers: Mapping[str, str], timeout_s: float
    ) -> Response | Unavailable:
        """Never raises for what a network may do; `timeout_s` is for all of it."""
        try:
            return self._client.post(url, data, headers, timeout_s)
        except HttpError as error:
            late = error.failure is HttpFailure.TIMEOUT
            return Unavailable(f"no answer within {timeout_s:g} s" if late else str(error))

    def close(self) -> None:
        self._client.close()


def requested_delay_s(response: Response) -> float | None:
    """Seconds that the server asks for before the next attempt."""
    return retry_after_s(response.headers.get("retry-after"))


def retry_after_s(value: str | None, now_s: float | None = None) -> float | None:
    """Seconds that a Retry-After header asks for, in [0, 300]; None if unreadable."""
    if not value:
        return None
    try:
        seconds = float(value) if value.strip().isdigit() else _until_s(value, now_s)
    except (ValueError, TypeError, OverflowError):
        return None
    return min(max(seconds, 0.0), MAX_RETRY_AFTER_S)


def _until_s(date: str, now_s: float | None) -> float:
    return parsedate_to_datetime(date).timestamp() - (time.time() if now_s is None else now_s)
