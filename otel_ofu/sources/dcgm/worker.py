"""The child process: enters framed requests on standard input, leaves replies on standard output.

`python -m otel_ofu.sources.dcgm.worker`. It ends when its input ends, when its parent dies, or on
SIGTERM, and disconnects from the engine each time it still can.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable

from otel_ofu.model.clock import SystemClock
from otel_ofu.sources.dcgm.client import DcgmClient, reports
from otel_ofu.sources.dcgm.wire import (
    FrameBuffer,
    ProbeRequest,
    ReadRequest,
    Reply,
    Request,
    StartRequest,
    frame,
    parse_request,
)

DISCONNECT_S = 2.0
"""After the parent is gone: time to disconnect, for calls that are not blocked."""

_SET_PARENT_DEATH_SIGNAL = 1


def main() -> None:
    """Serve until there is nobody to serve."""
    _end_with_parent()
    replies = os.dup(1)
    os.dup2(2, 1)  # whatever the vendor's code prints goes to the error text
    _Server(0, replies).serve()


class _Server:
    def __init__(self, requests: int, replies: int) -> None:
        self._requests = requests
        self._replies = replies
        self._frames = FrameBuffer()
        self._clock = SystemClock()
        self._start: StartRequest | None = None
        self._client: DcgmClient | None = None

    def serve(self) -> None:
        try:
            while self._feed():
                while (body := self._frames.next_body()) is not None:
                    self._send(self._answers(parse_request(body)))
        finally:
            if self._client:
                self._client.close()

    def _feed(self) -> bool:
        """Wait for bytes; False when the input has ended."""
        chunk = os.read(self._requests, 1 << 16)
        self._frames.feed(chunk)
        return bool(chunk)

    def _answers(self, request: Request) -> Iterable[Reply]:
        match request:
            case StartRequest():
                self._start = request
                self._client = DcgmClient(request, self._clock)
                return ()
            case ReadRequest() if self._client:
                return (self._client.read(request),)
            case ProbeRequest() if self._start:
                return reports(self._start, self._clock)
            case _:
                raise ValueError(f"{type(request).__name__} came before StartRequest")

    def _send(self, replies: Iterable[Reply]) -> None:
        for reply in replies:
            rest = memoryview(frame(reply))
            while rest:
                rest = rest[os.write(self._replies, rest) :]


def _end_with_parent() -> None:
    parent = os.getppid()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, who closes the pipe
    signal.signal(signal.SIGTERM, _leave)
    signal.signal(signal.SIGHUP, _leave_if(lambda: os.getppid() != parent))
    # The kernel sends it when the *thread* that started us ends, hence the check above.
    ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGHUP, 0, 0, 0)
    threading.Thread(target=_end_when_closed, args=(0,), daemon=True).start()


def _leave(*_: object) -> None:
    raise SystemExit(0)


def _leave_if(condition: Callable[[], bool]) -> Callable[..., None]:
    def handle(*_: object) -> None:
        if condition():
            _leave()

    return handle


def _end_when_closed(pipe: int) -> None:
    """A call into the engine can block for two minutes; this thread does not wait for it."""
    watch = select.poll()
    watch.register(pipe, 0)  # no events of interest but POLLHUP, which always comes
    watch.poll()
    time.sleep(DISCONNECT_S)
    os._exit(1)


if __name__ == "__main__":
    try:
        main()
    except (BrokenPipeError, KeyboardInterrupt):
        sys.exit(0)
