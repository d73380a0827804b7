"""The child process as the parent sees it: enters requests, leaves replies within a given time.

The child is started, never forked: the agent has threads. What it writes to standard error is
kept, the last 4 KiB of it, to explain its end.
"""

from __future__ import annotations

import os
import selectors
import subprocess
import sys
import time
from pathlib import Path
from typing import Protocol

from otel_ofu.sources.dcgm.wire import FrameBuffer, Reply, Request, frame, parse_reply

STOP_GRACE_S = 1.2
"""For the child to disconnect from the engine."""

_TERMINATE_S = 0.3
"""Starting value."""

_ERROR_BYTES = 4096  # starting value: the last lines of a traceback


class ChannelClosedError(Exception):
    """The other side has ended; the text has its status and the last line of its error output."""


class Channel(Protocol):
    """One client of an engine, wherever it runs. Used by one thread."""

    def send(self, request: Request) -> None:
        """Hand over a request. ChannelClosedError if nobody is there."""

    def receive(self, timeout_s: float) -> Reply | None:
        """The next reply, or None if there is none in time. ChannelClosedError as above."""

    def stop(self, grace_s: float) -> None:
        """End it: politely for `grace_s` seconds, then by force. May be called twice."""


class Child:
    """A `Channel` to a process of our own. ChannelClosedError if it cannot be started."""

    def __init__(self, command: tuple[str, ...] = ()) -> None:
        self._process = _started(command or _COMMAND)
        self._frames = FrameBuffer()
        self._errors = b""
        self._selector = selectors.DefaultSelector()
        for stream in (self._process.stdout, self._process.stderr):
            assert stream is not None  # noqa: S101 - asked for as pipes above
            os.set_blocking(stream.fileno(), False)
            self._selector.register(stream, selectors.EVENT_READ)

    @property
    def pid(self) -> int:
        return self._process.pid

    def send(self, request: Request) -> None:
        assert self._process.stdin is not None  # noqa: S101 - asked for as a pipe
        try:
            self._process.stdin.write(frame(request))
        except OSError as error:
            raise self._closed() from error

    def receive(self, timeout_s: float) -> Reply | None:
        deadline_s = time.monotonic() + timeout_s
        while True:
            body = self._next_body()
            if body is not None:
                return parse_reply(body)
            left_s = max(0.0, deadline_s - time.monotonic())
            if not self._read(left_s):
                return None

    def stop(self, grace_s: float = STOP_GRACE_S) -> None:
        process = self._process
        if process.stdin and not process.stdin.closed:
            process.stdin.close()
        for wait_s, then in ((grace_s, process.terminate), (_TERMINATE_S, process.kill)):
            if _ended(process, wait_s):
                break
            then()
        _ended(process, _TERMINATE_S)
        self._selector.close()
        for stream in (process.stdout, process.stderr):
            if stream:
                stream.close()

    def _next_body(self) -> bytes | None:
        try:
            return self._frames.next_body()
        except ValueError as error:
            raise ChannelClosedError(
                f"the DCGM client process sent an invalid message: {error}"
            ) from error

    def _read(self, timeout_s: float) -> bool:
        """Take whatever came from both pipes; False if nothing did in time."""
        ready = self._selector.select(timeout_s)
        for key, _ in ready:
            chunk = os.read(key.fd, 1 << 16)
            if not chunk:
                self._selector.unregister(key.fileobj)
            if key.fileobj is self._process.stderr:
                self._errors = (self._errors + chunk)[-_ERROR_BYTES:]
            elif chunk:
                self._frames.feed(chunk)
            else:
                raise self._closed()
        return bool(ready)

    def _closed(self) -> ChannelClosedError:
        _ended(self._process, _TERMINATE_S)
        self._drain()
        code = self._process.poll()
        lines = self._errors.decode("utf-8", errors="replace").strip().splitlines()
        last = f": {lines[-1]}" if lines else ""
        return ChannelClosedError(f"the DCGM client process ended (status {code}){last}")

    def _drain(self) -> None:
        stream = self._process.stderr
        while stream and not stream.closed and (chunk := stream.read(_ERROR_BYTES)):
            self._errors = (self._errors + chunk)[-_ERROR_BYTES:]


# -u: what the vendor prints arrives when it prints, not at the end.
_COMMAND = (sys.executable, "-u", "-P", "-m", "otel_ofu.sources.dcgm.worker")


def _started(command: tuple[str, ...]) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(  # noqa: S603 - our own interpreter and module
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            env=_environment(),
            start_new_session=True,
        )
    except OSError as error:
        raise ChannelClosedError(f"the DCGM client process cannot be started: {error}") from error


def _environment() -> dict[str, str]:
    """Ours, with the folder that holds this package: `-P` keeps the current folder out."""
    root = str(Path(__file__).resolve().parents[3])
    known = os.environ.get("PYTHONPATH", "")
    return os.environ | {"PYTHONPATH": f"{root}{os.pathsep}{known}" if known else root}


def _ended(process: subprocess.Popen[bytes], wait_s: float) -> bool:
    try:
        process.wait(wait_s)
    except subprocess.TimeoutExpired:
        return False
    return True
