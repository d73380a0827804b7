"""What clients may take of a listener: connections, bytes, time.

Enters: connections as they come, wait, work and go. Leaves: which of them make way.
"""

from __future__ import annotations

import logging
import resource
import threading
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from otel_ofu.model.log_once import LogOnce
from otel_ofu.net.http_service import HttpService

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpLimits:
    """All are starting values.

    A client has `head_s` for its TLS handshake and for the head of a request, `body_s` for its
    body, `idle_s` between two of them, and `write_s` to take its answer. `pending_bytes` are those
    of all bodies that are being received or answered. After `heartbeat_s` without an event a
    stream sends a comment: proxies close what is silent for 60 s.
    """

    connections: int = 1024
    pending_bytes: int = 64 * 2**20
    head_bytes: int = 16 * 1024
    head_s: float = 10.0
    body_s: float = 30.0
    idle_s: float = 120.0
    write_s: float = 30.0
    heartbeat_s: float = 15.0


class MemoryBudget:
    """Bytes that all requests together may hold. Thread-safe."""

    def __init__(self, most: int) -> None:
        self._left = most
        self._lock = threading.Lock()

    @property
    def left(self) -> int:
        return self._left

    def take(self, size: int) -> bool:
        with self._lock:
            if size > self._left:
                return False
            self._left -= size
            return True

    def give(self, size: int) -> None:
        with self._lock:
            self._left += size


class ServerConnection(Protocol):
    """A connection that may have to make way."""

    def abort(self) -> None: ...


ClientT = TypeVar("ClientT", bound=ServerConnection)


class Connections(Generic[ClientT]):
    """What all connections of a listener share; used on its thread alone.

    At the limit, the one that has been without a request for longest makes way, whether it is in
    its handshake, its head, between two requests or refused: slow ones, however many, must not
    keep out one that asks at once. One whose body comes or whose answer is made stays.
    """

    def __init__(
        self, service: HttpService, limits: HttpLimits, budget: MemoryBudget | None
    ) -> None:
        self.service = service
        self.limits = limits
        self.budget = budget or MemoryBudget(limits.pending_bytes)
        self.most = min(limits.connections, open_files() // 2)
        self._failures = LogOnce(_log, "HTTP server: ", level=logging.ERROR)
        self._open: dict[ClientT, None] = {}
        # In the order in which they began to wait.
        self._waiting: dict[ClientT, None] = {}

    @property
    def clients(self) -> tuple[ClientT, ...]:
        return tuple(self._open)

    def enter(self, client: ClientT) -> None:
        """Makes room for a new one, if that is possible."""
        while len(self._open) >= self.most and self._waiting:
            oldest = next(iter(self._waiting))
            self.leave(oldest)
            oldest.abort()
        self._open[client] = None
        self._waiting[client] = None

    def leave(self, client: ClientT) -> None:
        self._open.pop(client, None)
        self._waiting.pop(client, None)

    def is_over(self) -> bool:
        """Whether there are more than there may be, and the newest has to be refused."""
        return len(self._open) > self.most

    def busy(self, client: ClientT) -> None:
        """The head of its request is there."""
        self._waiting.pop(client, None)

    def idle(self, client: ClientT) -> None:
        """It was answered."""
        if client in self._open:
            self._waiting[client] = None

    def failed(self, what: str, error: Exception) -> None:
        """A handler that raised: one line for each distinct cause."""
        self._failures.log(f"{what}: {type(error).__name__}: {error}")


def open_files() -> int:
    """How many files this process may have open.

    A listener takes half of them at most: the default limit of 1,024 is what a flood would take,
    and then no other listener could accept, and no file could be opened.
    """
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return soft if soft != resource.RLIM_INFINITY else 2**20
