"""What is asked of a request before its body is read, and how the answer looks.

Enters: a `Head`. Leaves: the form and compression of the body, or the refusal; bytes of answers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus

from otel_ofu.receive.answers import Code, Form, Refusal, content_type, failure, success
from otel_ofu.receive.auth import BearerToken
from otel_ofu.receive.http_message import Head
from otel_ofu.receive.work import Outcome

METRICS = "/v1/metrics"
_FORMS: Mapping[str, Form] = {"application/x-protobuf": "protobuf", "application/json": "json"}


@dataclass(frozen=True, slots=True)
class Asked:
    """A request that may send its body."""

    form: Form
    gzipped: bool


def form_of(head: Head | None) -> Form:
    """The form that the client speaks; JSON for one that says nothing of it."""
    given = head.headers.get("content-type", "") if head else ""
    return _FORMS.get(given.partition(";")[0].strip().lower(), "json")


def judge(head: Head, token: BearerToken | None, limit: int) -> Asked | Refusal:
    """Whether the body of a request is welcome."""
    if token and not token.allows(head.headers.get("authorization", "")):
        return Refusal(401, Code.UNAUTHENTICATED, "a bearer token is needed")
    if head.path != METRICS:
        message = f"{head.path[:80]} is not here; this receiver takes metrics, at {METRICS}"
        return Refusal(404, Code.NOT_FOUND, message)
    if head.method != "POST":
        return Refusal(405, Code.UNIMPLEMENTED, "allowed: POST")
    return _judge_body(head, limit)


def _judge_body(head: Head, limit: int) -> Asked | Refusal:
    given = head.headers.get("content-type", "").partition(";")[0].strip().lower()
    if given not in _FORMS:
        allowed = f"Content-Type {given[:80]!r}; allowed: {', '.join(_FORMS)}"
        return Refusal(415, Code.INVALID_ARGUMENT, allowed)
    coding = head.headers.get("content-encoding", "identity").lower()
    if coding not in ("gzip", "identity", ""):
        message = f"Content-Encoding {coding[:80]!r}; allowed: gzip, identity"
        return Refusal(415, Code.INVALID_ARGUMENT, message)
    if head.length is not None and head.length > limit:
        return too_large(limit)
    return Asked(_FORMS[given], coding == "gzip")


def too_large(limit: int) -> Refusal:
    return Refusal(413, Code.INVALID_ARGUMENT, f"the body has more than {limit} bytes")


def answered(form: Form, outcome: Outcome, *, keep_alive: bool) -> bytes:
    """The answer to a request that was decoded, or refused."""
    refusal = outcome.refusal
    if refusal is None:
        return _answer(200, form, success(form, outcome.rejected, outcome.message), keep_alive)
    extra = b""
    if refusal.retry_s:
        extra += b"Retry-After: %d\r\n" % refusal.retry_s
    if refusal.status == HTTPStatus.UNAUTHORIZED:
        extra += b"WWW-Authenticate: Bearer\r\n"
    if refusal.status == HTTPStatus.METHOD_NOT_ALLOWED:
        extra += b"Allow: POST\r\n"
    return _answer(refusal.status, form, failure(form, refusal), keep_alive, extra)


def _answer(status: int, form: Form, body: bytes, keep_alive: bool, extra: bytes = b"") -> bytes:  # noqa: FBT001 - of this module alone
    phrase = HTTPStatus(status).phrase
    connection = "keep-alive" if keep_alive else "close"
    head = (
        f"HTTP/1.1 {status} {phrase}\r\nContent-Type: {content_type(form)}\r\n"
        f"Content-Length: {len(body)}\r\nConnection: {connection}\r\n"
    )
    return b"".join((head.encode("ascii"), extra, b"\r\n", body))
