"""Who may keep a connection to a small server, and for how long without having asked anything.

Enters: sockets as they are accepted. Leaves: those that are over their time, shut.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable

from otel_ofu.net.deadline import cut


class Places:
    """At most `most` connections; the head of a request must be complete after `patience_s`.

    For several threads. Sockets leave before they are closed, so none is shut that was closed.
    """

    def __init__(
        self, most: int, patience_s: float, now_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._most = most
        self._patience_s = patience_s
        self._now_s = now_s
        self._lock = threading.Lock()
        self._answered: set[socket.socket] = set()
        # In the order of arrival, with the time of it.
        self._unread: dict[socket.socket, float] = {}

    def enter(self, sock: socket.socket) -> bool:
        """False where all places are taken by requests that are being answered.

        Else the connection that has been without a request for longest makes way: slow ones,
        however many, must not keep out one that asks at once.
        """
        with self._lock:
            if len(self._answered) + len(self._unread) >= self._most:
                if not self._unread:
                    return False
                self._drop(next(iter(self._unread)))
            self._unread[sock] = self._now_s()
            return True

    def asked(self, sock: socket.socket) -> bool:
        """The head of its request is complete. False if it was dropped before that."""
        with self._lock:
            if self._unread.pop(sock, None) is None:
                return False
            self._answered.add(sock)
            return True

    def leave(self, sock: socket.socket) -> None:
        with self._lock:
            self._answered.discard(sock)
            self._unread.pop(sock, None)

    def drop_late(self) -> None:
        """Shuts those whose head is not complete in time."""
        with self._lock:
            since_s = self._now_s() - self._patience_s
            for sock in [sock for sock, came_s in self._unread.items() if came_s <= since_s]:
                self._drop(sock)

    def _drop(self, sock: socket.socket) -> None:
        del self._unread[sock]
        cut(sock)
