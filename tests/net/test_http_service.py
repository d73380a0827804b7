"""Server-sent events: to clients that read, that are slow, and that go away."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import closing
from queue import SimpleQueue

import pytest

from otel_ofu.net.http_limits import HttpLimits
from otel_ofu.net.http_service import (
    EventBuffer,
    EventStream,
    HttpRequest,
    HttpRoute,
    Reply,
    encode_event,
)
from tests.net.serving import Client, counted, read_all, serving
from tests.waiting import HANGS_S, wait_until

GET = b"GET /events HTTP/1.1\r\nHost: a\r\n\r\n"
HEAD = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-store\r\n"
    b"Connection: close\r\n\r\n"
)


def streaming(events: AsyncGenerator[bytes, None]) -> list[HttpRoute]:
    """One stream, for one client."""

    def handle(_request: HttpRequest, reply: Reply) -> None:
        reply(EventStream(events))

    return [HttpRoute("GET", "/events", handle)]


class Feed:
    """Hands the buffer of its client to the test."""

    def __init__(self, most: int = 100) -> None:
        self.buffers: SimpleQueue[EventBuffer] = SimpleQueue()
        self.ended: SimpleQueue[str] = SimpleQueue()
        self._most = most

    async def events(self) -> AsyncGenerator[bytes, None]:
        buffer = EventBuffer(self._most)
        self.buffers.put(buffer)
        try:
            async for event in buffer.events():
                yield event
        finally:
            self.ended.put("ended")

    def buffer(self) -> EventBuffer:
        return self.buffers.get(timeout=HANGS_S)


def read_until(plain: object, text: bytes) -> bytes:
    found = b""
    while text not in found:
        more = plain.recv(65536)  # type: ignore[attr-defined]  # a socket
        assert more, found
        found += more
    return found


def test_an_event_looks_as_the_standard_has_it() -> None:
    assert encode_event("a\nb\r\nc\rd", "finding", "7") == (
        b"event: finding\nid: 7\ndata: a\ndata: b\ndata: c\ndata: d\n\n"
    )
    assert encode_event("") == b"data: \n\n"
    for name, event_id in (("a\ndata: x", ""), ("", "1\rid: 2"), ("\x00", "")):
        with pytest.raises(ValueError, match="expected one line each"):
            encode_event("x", name, event_id)


def test_events_come_one_after_the_other_and_then_the_end() -> None:
    ended: SimpleQueue[str] = SimpleQueue()
    with serving(streaming(counted(3, ended))) as client:
        assert client.raw(GET) == HEAD + b"data: 0\n\ndata: 1\n\ndata: 2\n\n"
        assert ended.get(timeout=HANGS_S) == "ended"


def test_events_of_another_thread_are_sent_as_they_come() -> None:
    feed = Feed()
    with serving(streaming(feed.events())) as client, closing(client.open(GET)) as plain:
        buffer = feed.buffer()
        buffer.send(encode_event("first"))
        assert read_until(plain, b"data: first\n\n").startswith(HEAD)
        buffer.send(encode_event("second"))
        buffer.end()
        assert read_all(plain) == b"data: second\n\n"


def test_a_stream_without_events_sends_heartbeats() -> None:
    feed = Feed()
    with (
        serving(streaming(feed.events()), HttpLimits(heartbeat_s=0.01)) as client,
        closing(client.open(GET)) as plain,
    ):
        buffer = feed.buffer()
        read_until(plain, b":\n\n:\n\n")
        buffer.send(encode_event("still there"))
        read_until(plain, b"data: still there\n\n")


def test_the_generator_is_closed_with_its_client() -> None:
    feed = Feed()
    with serving(streaming(feed.events())) as client:
        with closing(client.open(GET)):
            buffer = feed.buffer()
        assert feed.ended.get(timeout=HANGS_S) == "ended"
        buffer.send(encode_event("to nobody"))


def test_the_generator_is_closed_with_the_server_and_its_client_reads_the_end() -> None:
    feed = Feed()
    with serving(streaming(feed.events())) as client, closing(client.open(GET)) as plain:
        buffer = feed.buffer()
        read_until(plain, HEAD)
        client.server.close()
        assert read_all(plain) == b""
        assert feed.ended.get(timeout=HANGS_S) == "ended"
        buffer.send(encode_event("to nobody"))
        buffer.end()


def test_a_client_that_reads_nothing_is_given_up_and_events_are_not_made_ahead() -> None:
    made: list[int] = []

    async def large() -> AsyncGenerator[bytes, None]:
        while True:
            made.append(1)
            yield bytes(2**20)

    with (
        serving(streaming(large()), HttpLimits(write_s=0.2)) as client,
        closing(client.open(GET)),
    ):
        wait_until(lambda: made and client.server.connections == 0, "the end of the stream")
        assert len(made) < 30  # what the kernel and one buffer of ours hold


def test_a_client_that_does_not_keep_up_is_ended_with_what_it_has() -> None:
    async def story() -> list[bytes]:
        buffer = EventBuffer(2)
        for text in (b"1", b"2", b"3", b"4"):
            buffer.send(text)
        await asyncio.sleep(0)
        return [event async for event in buffer.events()]

    assert asyncio.run(story()) == [b"1", b"2"]


def test_a_stream_that_fails_ends_and_the_server_goes_on() -> None:
    async def failing() -> AsyncGenerator[bytes, None]:
        yield b"data: 1\n\n"
        raise ZeroDivisionError("of a test")

    with serving(streaming(failing())) as client:
        assert client.raw(GET) == HEAD + b"data: 1\n\n"
        assert client.ask("/nowhere")[0] == 404


def test_a_head_request_begins_no_stream() -> None:
    ended: SimpleQueue[str] = SimpleQueue()
    with serving(streaming(counted(3, ended))) as client:
        assert client.raw(GET.replace(b"GET", b"HEAD")) == HEAD
        assert isinstance(client, Client)
        assert ended.empty()
