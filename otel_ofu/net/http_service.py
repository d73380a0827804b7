"""What a listener serves: a table of routes, who may ask, and how a refusal looks.

Enters: heads and requests. Leaves: the route of a head or a `Refusal`; responses as bytes.
"""

from __future__ import annotations

import random
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus

from otel_ofu.net.http_message import RequestHead, gunzip

_TEXT = "text/plain; charset=utf-8"


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """A request whose body is there, as it came; it is within the limit of its route."""

    head: RequestHead
    body: bytes

    @property
    def is_gzipped(self) -> bool:
        return content_coding(self.head) == "gzip"

    def content(self, limit: int) -> bytes:
        """The body without its compression. BadRequestError beyond the limit."""
        return gunzip(self.body, limit) if self.is_gzipped else self.body


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """An answer that is complete. `headers` are those beside its type and length."""

    body: bytes
    content_type: str = _TEXT
    status: int = 200
    headers: Mapping[str, str] | None = None

    def encode(self, *, keep_alive: bool, with_body: bool = True) -> bytes:
        """On the wire; without its body for HEAD, whose headers are the same."""
        more = "".join(f"{name}: {value}\r\n" for name, value in (self.headers or {}).items())
        head = (
            f"HTTP/1.1 {self.status} {_PHRASES[self.status]}\r\n"
            f"Content-Type: {self.content_type}\r\nContent-Length: {len(self.body)}\r\n"
            f"Connection: {'keep-alive' if keep_alive else 'close'}\r\n{more}\r\n"
        )
        return head.encode("ascii") + self.body if with_body else head.encode("ascii")


@dataclass(frozen=True, slots=True)
class EventStream:
    """Server-sent events, each encoded (`event_stream.encode_event`), until they end.

    They are asked for one at a time, when the client has taken the ones before; the generator is
    closed with the client or with the server.
    """

    events: AsyncGenerator[bytes, None]


@dataclass(frozen=True, slots=True)
class Refusal:
    """A request that is not taken. `retry_s`: the client may come back after so many seconds."""

    status: int
    message: str
    retry_s: int = 0
    allow: str = ""

    @property
    def headers(self) -> dict[str, str]:
        """Those that belong to the status."""
        found = {"Retry-After": str(self.retry_s)} if self.retry_s else {}
        if self.status == HTTPStatus.UNAUTHORIZED:
            found["WWW-Authenticate"] = "Bearer"
        if self.allow:
            found["Allow"] = self.allow
        return found


def busy(message: str = "busy; retry later") -> Refusal:
    """Too much at a time. Clients drop what they are to keep for long, so not for long.

    The delay varies, lest all of them come back at once.
    """
    return Refusal(429, message, random.randint(1, 3))  # noqa: S311 - no secret


def stopping() -> Refusal:
    return Refusal(503, "stopping; retry later", random.randint(1, 3))  # noqa: S311 - as above


def too_large(limit: int) -> Refusal:
    return Refusal(413, f"the body has more than {limit} bytes")


Reply = Callable[[HttpResponse | EventStream | Refusal], None]
"""Answers a request, once, from any thread; later calls and those to a closed connection do
nothing. An `EventStream` is replied before the handler returns."""


@dataclass(frozen=True, slots=True)
class HttpRoute:
    """`handle` is called on the thread of the listener and must not wait.

    `check` is asked before the body is read. HEAD is answered as GET is, without a body.
    """

    method: str
    path: str
    handle: Callable[[HttpRequest, Reply], None]
    check: Callable[[RequestHead], Refusal | None] = lambda _head: None
    body_bytes: int = 0


def plain_text(_head: RequestHead | None, refusal: Refusal) -> HttpResponse:
    """A refusal as a line of text."""
    body = f"{refusal.message}\n".encode("utf-8", "replace")
    return HttpResponse(body, status=refusal.status, headers=refusal.headers)


class HttpService:
    """`allows` is asked with the `Authorization` of each request, whatever its path.

    `refused` makes an answer of a refusal; its head is None where none could be read.
    """

    def __init__(
        self,
        routes: Sequence[HttpRoute],
        allows: Callable[[str], bool] | None = None,
        refused: Callable[[RequestHead | None, Refusal], HttpResponse] = plain_text,
    ) -> None:
        self.refused = refused
        self._allows = allows
        self._routes: dict[str, dict[str, HttpRoute]] = {}
        for route in routes:
            self._routes.setdefault(route.path, {})[route.method] = route
        for methods in self._routes.values():
            if "GET" in methods:
                methods["HEAD"] = methods["GET"]

    def find(self, head: RequestHead) -> HttpRoute | Refusal:
        """The route of a head whose body is welcome."""
        if self._allows and not self._allows(head.headers.get("authorization", "")):
            return Refusal(401, "a bearer token is required")
        methods = self._routes.get(head.path)
        if methods is None:
            paths = ", ".join(sorted(self._routes))
            return Refusal(404, f"{head.path[:80]} not found; available: {paths}")
        route = methods.get(head.method)
        if route is None:
            allow = ", ".join(sorted(methods))
            return Refusal(405, f"allowed: {allow}", allow=allow)
        return route.check(head) or _body_refusal(head, route) or route


def content_coding(head: RequestHead) -> str:
    """`gzip`, or empty for none."""
    given = head.headers.get("content-encoding", "").lower()
    return "" if given == "identity" else given


def _body_refusal(head: RequestHead, route: HttpRoute) -> Refusal | None:
    coding = content_coding(head)
    if coding not in ("gzip", ""):
        return Refusal(415, f"Content-Encoding {coding[:80]!r}; allowed: gzip, identity")
    if head.length is not None and head.length > route.body_bytes:
        return too_large(route.body_bytes)
    return None


_PHRASES: Mapping[int, str] = {int(status): status.phrase for status in HTTPStatus}
