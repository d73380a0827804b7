"""A server that speaks the HTTP API of Prometheus: one instant query, bounded in time and size.

Enters: PromQL and an instant. Leaves: the samples of a vector, or a `QueryError` that names the
server, never its credentials. Prometheus, Mimir, Thanos and VictoriaMetrics answer alike.
Source: Prometheus HTTP API, instant queries.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Protocol
from urllib.parse import urlencode

import msgspec

from otel_ofu.model.errors import OtelOfuError
from otel_ofu.net.http_client import HttpClient, HttpError, HttpFailure, Response
from otel_ofu.net.secrets import SecretError, authorization
from otel_ofu.net.tls import TlsFiles
from otel_ofu.rules.settings import ServerSettings

Sample = tuple[Mapping[str, str], float]


class _Series(msgspec.Struct, frozen=True):
    metric: dict[str, str]
    value: tuple[float, str]


class _Data(msgspec.Struct, frozen=True):
    resultType: str  # noqa: N815 - as the API spells it
    result: msgspec.Raw = msgspec.Raw(b"[]")


class _Response(msgspec.Struct, frozen=True):
    status: str
    data: _Data | None = None
    error: str = ""
    isPartial: bool = False  # noqa: N815 - as VictoriaMetrics spells it


def vector_of(body: bytes) -> list[Sample]:
    """The samples of an answer. ValueError holds what is wrong with it."""
    try:
        answer = msgspec.json.decode(body, type=_Response)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"no answer of a Prometheus API: {_beginning(body)}") from error
    if answer.status != "success" or answer.data is None:
        raise ValueError(answer.error or answer.status)
    if answer.isPartial:
        raise ValueError("a partial answer: some of its storage nodes did not answer")
    if answer.data.resultType != "vector":
        raise ValueError(f"a {answer.data.resultType} where a vector was queried")
    try:
        series = msgspec.json.decode(answer.data.result, type=list[_Series])
    except msgspec.DecodeError as error:
        raise ValueError(f"no vector of a Prometheus API: {error}") from error
    return [(one.metric, float(one.value[1])) for one in series]


def _beginning(body: bytes) -> str:
    text = " ".join(body[:200].decode("utf-8", "replace").split())
    return text or "it is empty"


LIMIT_BYTES = 256 << 20
"""Starting value: 10,000 series of one vector are about 5 MB."""
_FORM = "application/x-www-form-urlencoded"
# Starting value: an error of a server in a few lines of a log.
SHOWN_CHARACTERS = 300
# The server is there and did not like this one query; 422 and 503 are queries that took too much.
_OF_ONE_QUERY = (200, 400, 422, 503)
_HINTS = {
    401: "set username and password_file, or bearer_token_file",
    403: "the credentials are known but not allowed to query",
    404: "no such path: url is the part before /api/v1/query, such as https://mimir/prometheus",
}
# No answer at all is better than one that some shards are missing from: a mean over half of a
# job's GPUs looks like a mean. Thanos and VictoriaMetrics know one of these, the others none.
_WHOLE = {"partial_response": "false", "deny_partial_response": "1"}


class QueryError(OtelOfuError):
    """The server did not answer a query: its URL and the error."""


class ServerUnavailableError(QueryError):
    """The server answers no query now: not reached, too slow, or access is denied."""


class Queries(Protocol):
    """Answers PromQL."""

    def query(self, promql: str, at_s: float) -> list[Sample]:
        """The samples of an instant vector at `at_s` (Unix seconds). Raises QueryError."""
        ...


class QueryClient:
    """One connection, kept open. For one thread at a time.

    Files of the settings are read for every query, as tokens change. `limit_bytes`: of an answer.
    """

    def __init__(
        self,
        settings: ServerSettings,
        *,
        limit_bytes: int = LIMIT_BYTES,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self._settings = settings
        self._endpoint = f"{settings.url.rstrip('/')}/api/v1/query"
        self._limit_bytes = limit_bytes
        self._more_headers = headers or {}
        files = TlsFiles(ca_file=settings.ca_file)
        self._client = HttpClient(files, limit_bytes=limit_bytes, environ=os.environ)

    def query(self, promql: str, at_s: float) -> list[Sample]:
        """The samples of an instant vector at `at_s` (Unix seconds). Raises QueryError."""
        form = {"query": promql, "time": f"{at_s:.3f}", **_WHOLE}
        response = self._post(form)
        try:
            return vector_of(response.body)
        except ValueError as error:
            text = _short(f"answered {response.status_line}: {error}")
            raise self._error(text, response.status) from error

    def close(self) -> None:
        self._client.close()

    def _post(self, form: Mapping[str, str]) -> Response:
        headers = self._headers()
        timeout_s = self._settings.timeout
        try:
            response = self._client.post(
                self._endpoint, urlencode(form).encode(), headers, timeout_s
            )
        except HttpError as error:
            hint = "; set ca_file" if error.failure is HttpFailure.UNTRUSTED else ""
            raise self._error(f"{error}{hint}") from error
        if response.is_redirect:
            text = f"answered {response.status}, a redirect to {response.location or 'nowhere'}"
            raise self._error(f"{text}; not followed")
        if response.truncated:
            limit = self._limit_bytes >> 20
            raise self._error(f"the answer is larger than {limit} MiB", response.status)
        return response

    def _headers(self) -> dict[str, str]:
        settings = self._settings
        tenant = {"X-Scope-OrgID": settings.tenant} if settings.tenant else {}
        try:
            credentials = authorization(
                token_file=settings.bearer_token_file,
                username=settings.username,
                password_file=settings.password_file,
            )
        except SecretError as error:
            raise self._error(str(error)) from error
        return {"Content-Type": _FORM, **self._more_headers, **tenant, **credentials}

    def _error(self, text: str, status: int = 0) -> QueryError:
        hint = f"; {_HINTS[status]}" if status in _HINTS else ""
        kind = QueryError if status in _OF_ONE_QUERY else ServerUnavailableError
        return kind(f"{self._endpoint}: {text}{hint}")


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= SHOWN_CHARACTERS else text[: SHOWN_CHARACTERS - 1] + "…"
