"""OTLP over HTTP: a port, and a thread on which all connections live.

Enters: an address. Leaves: connections.
"""

from __future__ import annotations

import asyncio
import ssl
import threading
from functools import partial

from otel_ofu.receive.connection import Connection, Desk
from otel_ofu.receive.settings import Address

_HANDSHAKE_S = 10.0
_LAST_WORDS_S = 0.05
_BACKLOG = 1024


class HttpServer:
    """Listens from the moment that it is built. ValueError if it cannot, in one line."""

    def __init__(self, address: Address, desk: Desk, context: ssl.SSLContext | None) -> None:
        self._loop = asyncio.new_event_loop()
        self._connections: set[Connection] = set()
        self._desk = desk
        try:
            self._server = self._loop.run_until_complete(self._listen(address, context))
        except OSError as error:
            self._loop.close()
            raise ValueError(
                f"cannot listen on {address}: {error.strerror or error}; choose another port"
            ) from error
        name = self._server.sockets[0].getsockname()
        self.address = Address(str(name[0]), int(name[1]))
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="otlp-http", daemon=True
        )

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Ends listening and every connection; what was decoded by now has been answered."""
        if self._loop.is_closed():
            return
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stop)
            self._thread.join()
        else:
            self._server.close()
        self._loop.close()

    async def _listen(
        self, address: Address, context: ssl.SSLContext | None
    ) -> asyncio.base_events.Server:
        return await self._loop.create_server(
            partial(Connection, self._loop, self._desk, self._connections),
            address.host,
            address.port,
            ssl=context,
            backlog=_BACKLOG,
            ssl_handshake_timeout=_HANDSHAKE_S if context else None,
        )

    def _stop(self) -> None:
        self._server.close()
        for connection in tuple(self._connections):
            connection.end()
        self._loop.call_later(_LAST_WORDS_S, self._abort)

    def _abort(self) -> None:
        for connection in tuple(self._connections):
            connection.abort()
        self._loop.call_later(_LAST_WORDS_S, self._loop.stop)
