"""What a listener serves: a table of routes, who may ask, how a refusal looks, server-sent events.

Enters: heads and requests; events from any thread for a client that may be slow. Leaves: the route
of a head or a `Refusal`; responses and events as bytes.
Source: the HTML standard, 9.2 Server-sent events.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus

from otel_ofu.net.http_message import RequestHead, gunzip

HEAD = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-store\r\n"
    b"Connection: close\r\n\r\n"
)
HEARTBEAT = b":\n\n"
"""A comment, which clients pass over: proxies close what is silent, and a client that went away
without a word is noticed when it is written to."""


def encode_event(data: str, name: str = "", event_id: str = "") -> bytes:
    """One event on the wire; `event_id` is what a client that comes back names as its last.

    ValueError for a name or an id of more than one line, which would be read as more fields.
    """
    fields = [(key, value) for key, value in (("event", name), ("id", event_id)) if value]
    if any(not value.isprintable() for _, value in fields):
        raise ValueError(f"event {name!r}, id {event_id!r}: expected one line each")
    lines = [f"{key}: {value}" for key, value in fields]
    text = data.replace("\r\n", "\n").replace("\r", "\n")
    lines += [f"data: {line}" for line in text.split("\n")]
    return "\n".join([*lines, "", ""]).encode("utf-8", "replace")


class EventBuffer:
    """Events of one client between the thread that sends them and the one that writes them.

    Built on the thread of the listener. Bounded: the events of a client that does not keep up end,
    and it comes back for what it missed; it holds up nobody.
    """

    def __init__(self, most: int) -> None:
        self._loop = asyncio.get_running_loop()
        self._events: deque[bytes] = deque()
        self._most = most
        self._ended = False
        self._changed = asyncio.Event()

    def send(self, event: bytes) -> None:
        """From any thread; does nothing once the client or the server went away."""
        with suppress(RuntimeError):  # the server stopped
            self._loop.call_soon_threadsafe(self._put, event)

    def end(self) -> None:
        """The client gets what is here, and no more. From any thread."""
        with suppress(RuntimeError):  # as above
            self._loop.call_soon_threadsafe(self._end)

    async def events(self) -> AsyncGenerator[bytes, None]:
        """Each event, until the end."""
        try:
            while self._events or not self._ended:
                if self._events:
                    yield self._events.popleft()
                else:
                    self._changed.clear()
                    await self._changed.wait()
        finally:
            self._ended = True
            self._events.clear()

    def _put(self, event: bytes) -> None:
        if self._ended:
            return
        if len(self._events) < self._most:
            self._events.append(event)
        else:
            self._ended = True
        self._changed.set()

    def _end(self) -> None:
        self._ended = True
        self._changed.set()


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
