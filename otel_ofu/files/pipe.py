"""A pipe that somebody writes a document into, as `<(command)` of a shell gives.

Enters: its path. Leaves: its bytes, bounded in number and in time.
"""

from __future__ import annotations

import os
import select
import time

_CHUNK_BYTES = 65_536  # what a pipe of Linux holds


def read_pipe(path: str, most_bytes: int, wait_s: float) -> bytes:
    """All up to its end, at most `most_bytes`. TimeoutError if the end does not come in time."""
    # Without O_NONBLOCK to open it would wait for a writer without end.
    pipe = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        return _read(pipe, most_bytes, time.monotonic() + wait_s)
    finally:
        os.close(pipe)


def _read(pipe: int, most_bytes: int, end_s: float) -> bytes:
    body = bytearray()
    while len(body) < most_bytes:
        left_s = max(0.0, end_s - time.monotonic())
        if not select.select([pipe], [], [], left_s)[0]:
            raise TimeoutError
        chunk = os.read(pipe, min(_CHUNK_BYTES, most_bytes - len(body)))
        if not chunk:
            break
        body += chunk
    return bytes(body)
