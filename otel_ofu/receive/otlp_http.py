"""OTLP over HTTP: what the receiver's HTTP server serves.

Enters: heads and bodies. Leaves: tasks for the thread that decodes, and its answers as OTLP has
them. Source: opentelemetry-proto docs/specification.md, OTLP/HTTP.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from otel_ofu.net.http_message import RequestHead
from otel_ofu.net.http_service import (
    HttpRequest,
    HttpResponse,
    HttpRoute,
    HttpService,
    Refusal,
    Reply,
    busy,
)
from otel_ofu.net.secrets import BearerToken
from otel_ofu.receive.answers import Form, content_type, failure, success
from otel_ofu.receive.decode_worker import DecodeOutcome, DecodeTask

METRICS = "/v1/metrics"
_FORMS: Mapping[str, Form] = {"application/x-protobuf": "protobuf", "application/json": "json"}


def otlp_service(
    offer: Callable[[DecodeTask], bool], body_bytes: int, token: BearerToken | None
) -> HttpService:
    """One route: metrics. `offer` takes a task, or refuses it where there are too many."""

    def export(request: HttpRequest, reply: Reply) -> None:
        form = form_of(request.head)
        task = DecodeTask(
            request.body,
            form,
            request.is_gzipped,
            body_bytes,
            lambda outcome: reply(_answer(form, outcome)),
        )
        if not offer(task):
            reply(busy())

    route = HttpRoute("POST", METRICS, export, _check_form, body_bytes)
    return HttpService([route], token.allows if token else None, _refused)


def form_of(head: RequestHead | None) -> Form:
    """The form that the client speaks; JSON for one that names none."""
    return _FORMS.get(_media_type(head), "json") if head else "json"


def _media_type(head: RequestHead) -> str:
    return head.headers.get("content-type", "").partition(";")[0].strip().lower()


def _check_form(head: RequestHead) -> Refusal | None:
    given = _media_type(head)
    if given in _FORMS:
        return None
    return Refusal(415, f"Content-Type {given[:80]!r}; allowed: {', '.join(_FORMS)}")


def _answer(form: Form, outcome: DecodeOutcome) -> HttpResponse | Refusal:
    if outcome.refusal is not None:
        return outcome.refusal
    return HttpResponse(success(form, outcome.rejected, outcome.message), content_type(form))


def _refused(head: RequestHead | None, refusal: Refusal) -> HttpResponse:
    form = form_of(head)
    body = failure(form, refusal)
    return HttpResponse(body, content_type(form), refusal.status, refusal.headers)
