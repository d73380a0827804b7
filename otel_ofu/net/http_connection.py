"""One client over HTTP: its requests, their deadlines, and its answers.

Enters: bytes of a connection. Leaves: requests for the handlers, and their answers to the client.
"""

from __future__ import annotations

import asyncio
import math
import socket
import threading
from contextlib import suppress
from functools import partial

from otel_ofu.net.connecting import cut
from otel_ofu.net.http_limits import Connections
from otel_ofu.net.http_message import (
    BadRequestError,
    ChunkedBody,
    PlainBody,
    RequestHead,
    parse_head,
)
from otel_ofu.net.http_service import (
    HEAD,
    HEARTBEAT,
    EventStream,
    HttpRequest,
    HttpResponse,
    HttpRoute,
    Refusal,
    busy,
    stopping,
    too_large,
)

_END_OF_HEAD = b"\r\n\r\n"
# Starting value: time for a client that still sends to read why it is refused.
_LINGER_S = 1.0


class HttpConnection(asyncio.Protocol):
    """One client. A request is read, handed over, answered; then comes the next one."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        shared: Connections[HttpConnection],
        sock: socket.socket,
    ) -> None:
        self._loop = loop
        self._shared = shared
        self._limits = shared.limits
        self._sock = sock
        self._buffer = bytearray()
        self._content: bytes | bytearray = b""
        self._head: RequestHead | None = None
        self._route: HttpRoute | None = None
        self._body: PlainBody | ChunkedBody | None = None
        self._number = 0
        self._at_work = False
        self._refused = False
        self._is_idle = False
        self._is_full = False
        self._stream: asyncio.Task[None] | None = None
        self._taken: asyncio.Event | None = None
        self._due_s = math.inf
        self._timer: asyncio.TimerHandle | None = None
        self._transport: asyncio.Transport | None = None
        self._thread = threading.get_ident()

    @property
    def _out(self) -> asyncio.Transport:
        assert self._transport is not None  # noqa: S101 - set before anything is called
        return self._transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)  # noqa: S101 - of TCP, TLS and Unix
        self._transport = transport
        if self._shared.is_over():
            self._refuse(busy("too many connections; retry later"))
        else:
            self._wait(self._limits.head_s)

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self._shared.leave(self)
        self._set_timer(math.inf)
        if self._stream is not None:
            self._stream.cancel()
        if not self._at_work:
            self._release()

    def data_received(self, data: bytes) -> None:
        if self._refused or self._stream is not None:
            return  # it is read so that the client gets to see the answer, and goes nowhere
        self._buffer += data
        if not self._at_work:
            self._go_on()

    def eof_received(self) -> bool:
        """A client that sent all may still wait for its answer; a stream ends with its client."""
        return self._at_work and self._stream is None

    def pause_writing(self) -> None:
        """The client does not take its answers: nothing is done for it until it has."""
        self._is_full = True
        if self._taken:
            self._taken.clear()
        self._out.pause_reading()
        self._wait(self._limits.write_s)

    def resume_writing(self) -> None:
        self._is_full = False
        if self._taken:
            self._taken.set()
            self._stop_waiting()
        if self._taken or self._refused:
            self._out.resume_reading()
        elif not (self._at_work or self._out.is_closing()):
            self._next()

    def end(self) -> None:
        """The server stops. A request whose answer is under way may come back elsewhere."""
        if self._transport is None:
            cut(self._sock)
            return
        if self._head is not None and not self._refused and self._stream is None:
            self._write(stopping(), keep_alive=False)
        self._transport.close()

    def abort(self) -> None:
        if self._transport is None:
            cut(self._sock)  # in the middle of its TLS handshake
        else:
            self._transport.abort()

    def _go_on(self) -> None:
        try:
            while not (self._at_work or self._refused or self._is_full or self._out.is_closing()):
                if not (self._read_head() if self._body is None else self._read_body()):
                    return
        except BadRequestError as error:
            self._refuse(Refusal(error.status, str(error)))

    def _read_head(self) -> bool:
        """Whether the head is there."""
        while self._buffer.startswith(b"\r\n"):  # some clients end a body with one too many
            del self._buffer[:2]
        end = self._buffer.find(_END_OF_HEAD)
        most = self._limits.head_bytes
        if end > most or (end < 0 and len(self._buffer) > most):
            raise BadRequestError(431, f"the head has more than {most} bytes")
        if end < 0:
            if self._buffer and self._is_idle:
                self._is_idle = False
                self._wait(self._limits.head_s)
            return False
        self._head = head = parse_head(bytes(self._buffer[:end]))
        del self._buffer[: end + len(_END_OF_HEAD)]
        self._find_route(head)
        return not self._refused

    def _find_route(self, head: RequestHead) -> None:
        found = self._shared.service.find(head)
        if isinstance(found, Refusal):
            self._refuse(found)
            return
        self._shared.busy(self)
        self._route = found
        self._body = ChunkedBody() if head.length is None else PlainBody(head.length)
        if head.expects_continue and not self._buffer:
            self._out.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        if head.length is None or head.length > len(self._buffer):
            self._wait(self._limits.body_s)

    def _read_body(self) -> bool:
        """Whether to go on with what is in the buffer."""
        assert self._body is not None  # noqa: S101 - see _go_on
        part = self._body.feed(self._buffer)
        if part and not self._keep(part):
            return False
        if not self._body.complete:
            return False
        self._hand_over()
        return True

    def _keep(self, part: bytes) -> bool:
        assert self._route is not None  # noqa: S101 - see _find_route
        most = self._route.body_bytes
        if len(self._content) + len(part) > most:
            self._refuse(too_large(most))
        elif not self._shared.budget.take(len(part)):
            self._refuse(busy())
        elif not self._content:
            self._content = part  # most bodies come whole
        else:
            # One growing array: a body of single bytes would be a list of millions.
            if isinstance(self._content, bytes):
                self._content = bytearray(self._content)
            self._content += part
        return not self._refused

    def _hand_over(self) -> None:
        assert self._head is not None  # noqa: S101 - see _find_route
        assert self._route is not None  # noqa: S101 - as above
        self._stop_waiting()
        self._at_work = True
        self._number += 1
        reply = partial(self._reply, self._number)
        try:
            self._route.handle(HttpRequest(self._head, bytes(self._content)), reply)
        except BadRequestError as error:
            reply(Refusal(error.status, str(error)))
        except Exception as error:  # noqa: BLE001 - one request must not end the server
            self._shared.failed(f"{self._head.method} {self._head.path[:80]}", error)
            reply(Refusal(500, "internal error"))
        if self._at_work and self._stream is None:
            self._out.pause_reading()

    def _reply(self, number: int, answer: HttpResponse | EventStream | Refusal) -> None:
        """Called from any thread, which may be this one."""
        if threading.get_ident() == self._thread:
            self._finish(number, answer)
            return
        with suppress(RuntimeError):  # the server stopped in the meantime
            self._loop.call_soon_threadsafe(self._finish, number, answer)

    def _finish(self, number: int, answer: HttpResponse | EventStream | Refusal) -> None:
        if number != self._number or not self._at_work or self._stream is not None:
            return  # it was answered already
        if isinstance(answer, EventStream):
            self._start_stream(answer)
            return
        self._at_work = False
        self._release()
        if self._out.is_closing():
            return
        keep_alive = bool(self._head and self._head.keep_alive)
        self._write(answer, keep_alive=keep_alive)
        self._head, self._route, self._body = None, None, None
        if not keep_alive:
            self._close()
        elif not self._is_full:
            self._next()

    def _start_stream(self, stream: EventStream) -> None:
        self._release()
        self._taken = asyncio.Event()
        self._out.write(HEAD)
        if self._head and self._head.method == "HEAD":
            self._close()
        else:
            self._stream = self._loop.create_task(self._send_events(stream))

    def _next(self) -> None:
        """Waits for the next request."""
        self._is_idle = True
        self._shared.idle(self)
        self._wait(self._limits.idle_s)
        self._out.resume_reading()
        if self._buffer:
            self._loop.call_soon(self._go_on)

    def _refuse(self, refusal: Refusal) -> None:
        """Answers before the request is complete, and goes on reading for a moment.

        A connection that is closed on a client that still sends loses the answer.
        """
        self._refused = True
        self._shared.idle(self)
        self._write(refusal, keep_alive=False)
        self._release()
        self._buffer.clear()
        if self._out.can_write_eof():
            self._out.write_eof()
        self._wait(_LINGER_S)

    def _write(self, answer: HttpResponse | Refusal, *, keep_alive: bool) -> None:
        if isinstance(answer, Refusal):
            answer = self._shared.service.refused(self._head, answer)
        with_body = self._head is None or self._head.method != "HEAD"
        self._out.write(answer.encode(keep_alive=keep_alive, with_body=with_body))

    async def _send_events(self, stream: EventStream) -> None:
        """Writes events as the client takes them, and a heartbeat when there are none."""
        assert self._taken is not None  # noqa: S101 - see _start_stream
        next_: asyncio.Future[bytes] | None = None
        try:
            while not self._out.is_closing():
                if self._is_full:
                    await self._taken.wait()
                next_ = next_ or asyncio.ensure_future(anext(stream.events))
                done, _ = await asyncio.wait((next_,), timeout=self._limits.heartbeat_s)
                self._out.write(next_.result() if done else HEARTBEAT)
                next_ = None if done else next_
        except StopAsyncIteration:
            self._close()
        except Exception as error:  # noqa: BLE001 - as above
            self._shared.failed("a stream of events", error)
            self._close()
        finally:
            if next_ is not None:
                next_.cancel()
                await asyncio.wait((next_,))
            await stream.events.aclose()

    def _close(self) -> None:
        """Closes once the client has the answer, for which it has a deadline as well."""
        self._out.close()
        if self._out.get_write_buffer_size():
            self._wait(self._limits.write_s)

    def _release(self) -> None:
        if self._content:
            self._shared.budget.give(len(self._content))
            self._content = b""

    def _wait(self, seconds: float) -> None:
        """A new deadline. A timer that ends before it stays, and checks the deadline then.

        A timer for each of them took a tenth of the time of a small request.
        """
        self._due_s = self._loop.time() + seconds
        if self._timer is None or self._timer.when() > self._due_s:
            self._set_timer(self._due_s)

    def _stop_waiting(self) -> None:
        self._due_s = math.inf

    def _set_timer(self, due_s: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None if due_s == math.inf else self._loop.call_at(due_s, self._check_time)

    def _check_time(self) -> None:
        self._timer = None
        if self._due_s > self._loop.time():
            self._set_timer(self._due_s)
            return
        if self._body is not None and not (self._refused or self._at_work or self._is_full):
            self._refuse(Refusal(408, "the body did not arrive in time"))
        else:
            self._out.abort()
