"""What may become of a request that was sent, the seam to whatever sends it, and one HTTP POST.

Enters: a URL, bytes, headers. Leaves: a `Response`, or `Unavailable` in plain text. The proxies of
the environment are used, as OTLP exporters and webhooks are often behind one.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Protocol

from otel_ofu.net.http_client import HttpClient, HttpError, HttpFailure, Response
from otel_ofu.net.tls import TlsFiles, check_tls_files
from otel_ofu.outbox.batch import Body

# A server that asks for a longer pause than this is tried anyway. Starting value.
MAX_RETRY_AFTER_S = 300.0


@dataclass(frozen=True, slots=True)
class Delivered:
    """The backend took it, all but `rejected` points; `message` is its reason for those."""

    rejected: int = 0
    message: str = ""


@dataclass(frozen=True, slots=True)
class Refused:
    """It will never be taken: sending it again would not help."""

    message: str


@dataclass(frozen=True, slots=True)
class TooLarge:
    """It may be taken in smaller parts."""

    message: str


@dataclass(frozen=True, slots=True)
class Unavailable:
    """Later, perhaps; not before `after_s` seconds if the backend asks for that."""

    message: str
    after_s: float | None = None


Outcome = Delivered | Refused | TooLarge | Unavailable


class Transport(Protocol):
    """Sends requests of one signal to one endpoint. Never raises for what a network may do.

    `send` takes its configured timeout, or `limit_s` seconds where that is less. `halves` divides
    what was too large; None if it cannot be divided.

    `endpoint` is for people, without secrets. `close` may be called twice; a later
    `send` opens again.
    """

    @property
    def endpoint(self) -> str: ...

    def send(self, body: Body, limit_s: float) -> Outcome: ...

    def halves(self, body: Body) -> tuple[Body, Body] | None: ...

    def close(self) -> None: ...


def short(text: str, most: int = 200) -> str:
    """One printable line of at most `most` characters out of what a server answered."""
    line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return line if len(line) <= most else line[: most - 1] + "…"


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
