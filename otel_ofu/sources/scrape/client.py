"""One GET of a metrics page, bounded in time and size.

Enters: an endpoint. Leaves: the text of its page, or a `FetchError` that names the endpoint.
"""

from __future__ import annotations

import codecs
import http.client

from otel_ofu.model import Gap, GapReason, Trouble
from otel_ofu.model.errors import SourceError
from otel_ofu.net.http_client import HttpClient, HttpError, HttpFailure, Response
from otel_ofu.net.secrets import SecretError, authorization
from otel_ofu.net.tls import TlsFiles
from otel_ofu.sources.scrape.settings import PageEndpoint

_HINTS = {
    401: "set username and password_file, or bearer_token_file",
    403: "the credentials are known but may not read the page",
    404: "no page at this path; exporters mostly use /metrics",
}
_FAILURES = {
    HttpFailure.UNTRUSTED: "{}; set ca_file",
    HttpFailure.REFUSED: "connection refused; check that the exporter runs",
    HttpFailure.NO_HOST: "the host name is not known ({})",
}


class FetchError(SourceError):
    """The endpoint `target` gave no page; `reason` is for the gaps in place of its values."""

    def __init__(self, target: str, detail: str, reason: GapReason = GapReason.FAILED) -> None:
        super().__init__(f"{target}: {detail}")
        self.trouble = Trouble(target, reason.value, detail)
        self.reason = reason


def decoded(body: bytes) -> str:
    """A page as text: UTF-8, or UTF-16 where its byte-order mark says so."""
    is_utf_16 = body.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    return body.decode("utf-16" if is_utf_16 else "utf-8", errors="replace")


def unusable(body: bytes, content_type: str = "") -> Gap | None:
    """Why these bytes cannot be a page of metrics; None if they may be one."""
    if not body.strip():
        why = "the page is empty (an exporter that is starting or reloading does this)"
        return Gap(GapReason.NOT_READY, why)
    if "html" in content_type or body.lstrip()[:1] == b"<":
        why = "answered with HTML, not metrics; exporters mostly use /metrics"
        return Gap(GapReason.FAILED, why)
    return None


class Fetcher:
    """Fetches one endpoint again and again over one connection. Belongs to one thread."""

    def __init__(self, endpoint: PageEndpoint) -> None:
        self._endpoint = endpoint
        # The ca_file may be there later: it is read when connecting.
        self._client = HttpClient(
            TlsFiles(ca_file=endpoint.ca_file), limit_bytes=endpoint.limit_bytes
        )

    def fetch(self) -> str:
        """The page as text. FetchError if there is none within `timeout_s` and `limit_bytes`."""
        endpoint = self._endpoint
        headers = self._headers()
        try:
            response = self._client.get(endpoint.url, headers, endpoint.timeout_s)
        except HttpError as error:
            text = _FAILURES.get(error.failure, "{}").format(error)
            raise self._error(text) from error
        self._check_status(response)
        return self._checked(response)

    def close(self) -> None:
        self._client.close()

    def _headers(self) -> dict[str, str]:
        endpoint = self._endpoint
        try:
            credentials = authorization(
                token_file=endpoint.bearer_token_file,
                username=endpoint.username,
                password_file=endpoint.password_file,
                password=endpoint.password,
            )
        except SecretError as error:
            raise self._error(str(error), GapReason.NOT_PERMITTED) from error
        return {"Accept": "text/plain;version=0.0.4;q=1,text/plain;q=0.5", **credentials}

    def _check_status(self, response: Response) -> None:
        if response.status == http.client.OK:
            return
        text = f"answered {response.status_line}"
        if response.location:
            text += f", a redirect to {response.location}; not followed"
        elif response.status in _HINTS:
            text += f"; {_HINTS[response.status]}"
        denied = response.status in (http.client.UNAUTHORIZED, http.client.FORBIDDEN)
        raise self._error(text, GapReason.NOT_PERMITTED if denied else GapReason.FAILED)

    def _checked(self, response: Response) -> str:
        body = response.body
        if response.truncated:
            limit = self._endpoint.limit_bytes
            raise self._error(f"the page is larger than {limit} bytes (max_body)")
        fault = unusable(body, response.content_type)
        if fault is not None:
            raise self._error(fault.detail, fault.reason)
        return decoded(body)

    def _error(self, text: str, reason: GapReason = GapReason.FAILED) -> FetchError:
        return FetchError(self._endpoint.name, text, reason)
