"""A deadline for a whole exchange, which timeouts of single reads cannot keep.

Enters: seconds and what ends the exchange. Leaves: whether the time was up.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress


@contextmanager
def deadline(left_s: float, end: Callable[[], None]) -> Iterator[threading.Event]:
    """Calls `end` on another thread after `left_s` seconds; the event is set when it was called.

    A server that trickles restarts every timeout of a socket; `cut` for its socket ends the wait.
    """
    passed = threading.Event()

    def act() -> None:
        passed.set()
        end()

    timer = threading.Timer(left_s, act)
    timer.daemon = True
    timer.start()
    try:
        yield passed
    finally:
        timer.cancel()
        timer.join()


def cut(sock: socket.socket) -> None:
    """Shuts a socket that another thread may be reading from or writing to; it reads the end."""
    with suppress(OSError):  # closed already: the wait is over as well
        # Not sock.shutdown: a TLS socket would drop its state under the other thread.
        socket.socket.shutdown(sock, socket.SHUT_RDWR)
