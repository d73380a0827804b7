"""Server-sent events: how one looks, and how it gets from any thread to a client that may be slow.

Enters: events. Leaves: bytes. Source: the HTML standard, 9.2 Server-sent events.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import suppress

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
