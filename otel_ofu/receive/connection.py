"""One client over HTTP: its requests, its patience, and its answers.

Enters: bytes of a connection. Leaves: tasks to decode, and the answers to the client.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from otel_ofu.receive.answers import Code, Refusal, busy, stopping
from otel_ofu.receive.auth import BearerToken
from otel_ofu.receive.exchange import Asked, answered, form_of, judge, too_large
from otel_ofu.receive.http_message import (
    BadRequestError,
    ChunkedBody,
    Head,
    PlainBody,
    parse_head,
)
from otel_ofu.receive.settings import Limits
from otel_ofu.receive.work import Budget, Outcome, Task

_END_OF_HEAD = b"\r\n\r\n"
_LINGER_S = 1.0


@dataclass(frozen=True, slots=True)
class Desk:
    """What all connections share."""

    offer: Callable[[Task], bool]
    budget: Budget
    limits: Limits
    token: BearerToken | None


class Connection(asyncio.Protocol):
    """One client. A request is read, handed over, answered; then comes the next one."""

    def __init__(self, loop: asyncio.AbstractEventLoop, desk: Desk, all_: set[Connection]) -> None:
        self._loop = loop
        self._desk = desk
        self._all = all_
        self._buffer = bytearray()
        self._pieces: list[bytes] = []
        self._size = 0
        self._head: Head | None = None
        self._asked: Asked | None = None
        self._body: PlainBody | ChunkedBody | None = None
        self._at_work = False
        self._refused = False
        self._is_idle = False
        self._timer: asyncio.TimerHandle | None = None
        self._transport: asyncio.Transport
        self._thread = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)  # noqa: S101 - of TCP and TLS
        self._transport = transport
        self._thread = threading.get_ident()
        self._all.add(self)
        if len(self._all) > self._desk.limits.connections:
            self._refuse(busy("too many connections; come back later"))
        else:
            self._wait(self._desk.limits.head_s)

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self._all.discard(self)
        self._stop_timer()
        if not self._at_work:
            self._release()

    def data_received(self, data: bytes) -> None:
        if self._refused:
            return  # it is read so that the client gets to see the answer, and goes nowhere
        self._buffer += data
        if not self._at_work:
            self._go_on()

    def eof_received(self) -> bool:
        """A client that sent all may still wait for its answer."""
        return self._at_work

    def end(self) -> None:
        """The server stops. A request whose answer is under way is told to come back."""
        if self._head is not None and not self._refused:
            self._write(Outcome(stopping()), keep_alive=False)
        self._transport.close()

    def abort(self) -> None:
        self._transport.abort()

    def _go_on(self) -> None:
        try:
            while not (self._at_work or self._refused or self._transport.is_closing()):
                if not (self._read_head() if self._body is None else self._read_body()):
                    return
        except BadRequestError as error:
            self._refuse(Refusal(error.status, Code.INVALID_ARGUMENT, str(error)))

    def _read_head(self) -> bool:
        """Whether the head is there."""
        while self._buffer.startswith(b"\r\n"):  # some clients end a body with one too many
            del self._buffer[:2]
        end = self._buffer.find(_END_OF_HEAD)
        most = self._desk.limits.head_bytes
        if end > most or (end < 0 and len(self._buffer) > most):
            raise BadRequestError(431, f"the head has more than {most} bytes")
        if end < 0:
            if self._buffer and self._is_idle:
                self._is_idle = False
                self._wait(self._desk.limits.head_s)
            return False
        self._head = head = parse_head(bytes(self._buffer[:end]))
        del self._buffer[: end + len(_END_OF_HEAD)]
        self._judge(head)
        return not self._refused

    def _judge(self, head: Head) -> None:
        asked = judge(head, self._desk.token, self._desk.limits.http_bytes)
        if isinstance(asked, Refusal):
            self._refuse(asked)
            return
        self._asked = asked
        self._body = ChunkedBody() if head.length is None else PlainBody(head.length)
        self._wait(self._desk.limits.body_s)
        if head.expects_continue and not self._buffer:
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def _read_body(self) -> bool:
        """Whether to go on with what is in the buffer."""
        assert self._body is not None  # noqa: S101 - see _go_on
        piece = self._body.feed(self._buffer)
        if piece and not self._keep(piece):
            return False
        if not self._body.complete:
            return False
        self._hand_over()
        return True

    def _keep(self, piece: bytes) -> bool:
        limits = self._desk.limits
        if self._size + len(piece) > limits.http_bytes:
            self._refuse(too_large(limits.http_bytes))
        elif not self._desk.budget.take(len(piece)):
            self._refuse(busy())
        else:
            self._size += len(piece)
            self._pieces.append(piece)
        return not self._refused

    def _hand_over(self) -> None:
        assert self._asked is not None  # noqa: S101 - see _judge
        self._stop_timer()
        body = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
        self._pieces.clear()
        limit = self._desk.limits.http_bytes
        self._at_work = True
        task = Task(body, self._asked.form, self._asked.gzipped, limit, self._told)
        if not self._desk.offer(task):
            self._finish(Outcome(busy()))
        elif self._at_work:
            self._transport.pause_reading()

    def _told(self, outcome: Outcome) -> None:
        """Called from the thread that decoded, which may be this one."""
        if threading.get_ident() == self._thread:
            self._finish(outcome)
            return
        with suppress(RuntimeError):  # the server stopped in the meantime: nobody is there to tell
            self._loop.call_soon_threadsafe(self._finish, outcome)

    def _finish(self, outcome: Outcome) -> None:
        self._at_work = False
        self._release()
        if self._transport.is_closing():
            return
        keep_alive = bool(self._head and self._head.keep_alive)
        self._write(outcome, keep_alive=keep_alive)
        self._head, self._asked, self._body = None, None, None
        if not keep_alive:
            self._transport.close()
            return
        self._is_idle = True
        self._wait(self._desk.limits.idle_s)
        self._transport.resume_reading()
        if self._buffer:
            self._loop.call_soon(self._go_on)

    def _refuse(self, refusal: Refusal) -> None:
        """Answers before the request is complete, and goes on reading for a moment.

        A connection that is closed on a client that still sends loses the answer.
        """
        self._refused = True
        self._write(Outcome(refusal), keep_alive=False)
        self._release()
        self._buffer.clear()
        self._pieces.clear()
        if self._transport.can_write_eof():
            self._transport.write_eof()
        self._wait(_LINGER_S)

    def _write(self, outcome: Outcome, *, keep_alive: bool) -> None:
        form = self._asked.form if self._asked else form_of(self._head)
        self._transport.write(answered(form, outcome, keep_alive=keep_alive))

    def _release(self) -> None:
        if self._size:
            self._desk.budget.give(self._size)
            self._size = 0

    def _wait(self, seconds: float) -> None:
        self._stop_timer()
        self._timer = self._loop.call_later(seconds, self._time_is_up)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _time_is_up(self) -> None:
        self._timer = None
        if self._body is not None and not self._refused:
            self._refuse(Refusal(408, Code.INVALID_ARGUMENT, "the body did not come in time"))
        else:
            self._transport.abort()
