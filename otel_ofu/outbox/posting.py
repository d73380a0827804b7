"""One HTTP POST, whatever it carries: the answer as it is, or why there was none.

Enters: a URL, bytes, headers. Leaves: an `Answer`, or `Unavailable` in plain words.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING

from otel_ofu.outbox.outcome import MOST_PATIENCE_S, Unavailable
from otel_ofu.outbox.tls import TlsFiles, check_tls_files

if TYPE_CHECKING:
    import requests

    from otel_ofu.outbox.connection import Line

_MOST_ANSWER_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class Answer:
    """`body` is at most the first 64 KiB or a little more; `kind` the media type in lower case."""

    status: int
    reason: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def kind(self) -> str:
        return self.headers.get("Content-Type", "").partition(";")[0].strip().lower()

    @property
    def success(self) -> bool:
        return 200 <= self.status < 300  # noqa: PLR2004 - HTTP: success

    @property
    def redirect(self) -> bool:
        return 300 <= self.status < 400  # noqa: PLR2004 - HTTP: redirection

    @property
    def target(self) -> str:
        """Where a redirect points, without a query, which may hold a key."""
        return self.headers.get("Location", "").partition("?")[0]

    @property
    def after_s(self) -> float | None:
        """Seconds that the server asks for before the next attempt."""
        return retry_after_s(self.headers.get("Retry-After"))


class Poster:
    """Keeps one connection open. ValueError at once for TLS files that are no use.

    Redirects are not followed, a ~/.netrc is not read.
    """

    def __init__(self, tls: TlsFiles) -> None:
        check_tls_files(tls)
        self._tls = tls
        self._session: requests.Session | None = None
        self._line: Line | None = None

    def post(
        self, url: str, data: bytes, headers: Mapping[str, str], timeout_s: float
    ) -> Answer | Unavailable:
        """Never raises for what a network may do.

        `timeout_s` is for all of it, from the connection to the end of the answer; where it
        passes, the connection is dropped, and the next post opens a new one.
        """
        import requests  # noqa: PLC0415 - 150 ms that only those who post need

        session, line = self._opened()
        late = f"no answer within {timeout_s:g} s"
        with line.exchange(timeout_s) as passed:
            try:
                answer = self._exchange(session, url, data, headers, timeout_s)
            except (requests.RequestException, OSError) as error:
                self.close()
                return Unavailable(late if passed.is_set() else _words(error, late))
        if passed.is_set():  # what was cut may look like an end
            self.close()
            return Unavailable(late)
        return answer

    def close(self) -> None:
        if self._session is not None:
            self._session.close()
            self._session = self._line = None

    def _exchange(
        self,
        session: requests.Session,
        url: str,
        data: bytes,
        headers: Mapping[str, str],
        timeout_s: float,
    ) -> Answer:
        with session.post(
            url,
            data=data,
            headers=headers,
            timeout=timeout_s,
            verify=self._tls.ca_file or True,
            allow_redirects=False,
            stream=True,
        ) as response:
            reason = response.reason or ""
            return Answer(response.status_code, reason, response.headers, _beginning(response))

    def _opened(self) -> tuple[requests.Session, Line]:
        import requests  # noqa: PLC0415 - as above

        from otel_ofu.outbox.connection import Line, LineAdapter  # noqa: PLC0415 - imports requests

        if self._session is None or self._line is None:
            # Its lines hold whole URLs, and those of webhooks are secrets; all is told by `_words`.
            logging.getLogger("urllib3").setLevel(logging.CRITICAL)
            session = requests.Session()
            session.auth = _no_auth
            self._line = Line()
            for scheme in ("http://", "https://"):
                session.mount(scheme, LineAdapter(self._line))
            if self._tls.cert_file:
                session.cert = (self._tls.cert_file, self._tls.key_file or self._tls.cert_file)
            self._session = session
        return self._session, self._line


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


def _beginning(response: requests.Response) -> bytes:
    """As much of the answer as is of interest; a server may send without an end."""
    found = b""
    for chunk in response.iter_content(_MOST_ANSWER_BYTES):
        found += chunk
        if len(found) >= _MOST_ANSWER_BYTES:
            break
    return found


def _no_auth(request: requests.PreparedRequest) -> requests.PreparedRequest:
    """Keeps a ~/.netrc from putting its own Authorization over the configured one."""
    return request


def _words(error: BaseException, late: str) -> str:
    """The innermost cause in its own words; those of the outer ones repeat the URL."""
    causes = _causes(error)
    if any(isinstance(cause, TimeoutError) for cause in causes):
        return late
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
