"""Serves one page at GET /metrics, on loopback unless told otherwise.

Enters: HTTP requests. Leaves: what the page says at that moment.
"""

from __future__ import annotations

import hmac
import logging
import socket
import ssl
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from typing import Any

from otel_ofu.export.places import Places
from otel_ofu.export.prometheus import CONTENT_TYPE

_log = logging.getLogger(__name__)

# A scraper is one, perhaps three; beyond this, the slowest to ask makes way.
_MOST_CONNECTIONS = 16
_PATIENCE_S = 10.0
_HEAD_PATIENCE_S = 5.0


@dataclass(frozen=True, slots=True)
class Listen:
    """Where to listen; port 0 takes a free one. `token` asks for `Authorization: Bearer`."""

    host: str = "127.0.0.1"
    port: int = 9464
    token: str = field(default="", repr=False)
    cert_file: str | None = None
    key_file: str | None = None


class PrometheusServer:
    """Listens from the moment that it is built. ValueError if it cannot, in one line."""

    def __init__(self, text: Callable[[], str], listen: Listen) -> None:
        context = _tls(listen)
        try:
            self._server = _Server(listen, text, context)
        except OSError as error:
            place = f"{listen.host}:{listen.port}"
            raise ValueError(
                f"cannot listen on {place}: {error.strerror or error}; choose another port"
            ) from error
        self.host, self.port = str(self._server.server_address[0]), self._server.server_address[1]
        self._thread = threading.Thread(
            target=self._server.serve_forever,
            kwargs={"poll_interval": 0.1},
            daemon=True,
            name="prometheus",
        )

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Ends listening; may be called twice."""
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join(_PATIENCE_S)
        self._server.server_close()


def _tls(listen: Listen) -> ssl.SSLContext | None:
    if not listen.cert_file:
        if listen.key_file:
            raise ValueError("key_file without cert_file: TLS needs both")
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(listen.cert_file, listen.key_file, password=lambda: "")
    except (OSError, ssl.SSLError) as error:
        raise ValueError(f"cert_file {listen.cert_file}: {error.strerror or error}") from error
    return context


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    # The default of 5 makes a burst of scrapers wait for a second SYN.
    request_queue_size = 2 * _MOST_CONNECTIONS

    def __init__(
        self, listen: Listen, text: Callable[[], str], context: ssl.SSLContext | None
    ) -> None:
        self.address_family = socket.AF_INET6 if ":" in listen.host else socket.AF_INET
        self.text = text
        self.token = listen.token
        self._context = context
        self.places = Places(_MOST_CONNECTIONS, _HEAD_PATIENCE_S)
        super().__init__((listen.host, listen.port), _Handler)

    def server_bind(self) -> None:
        """Without the look-up of the host's name that HTTPServer does, which may take seconds."""
        TCPServer.server_bind(self)

    def get_request(self) -> tuple[socket.socket, Any]:
        accepted, address = super().get_request()
        accepted.settimeout(_PATIENCE_S)
        if self._context is None:
            return accepted, address
        # The handshake waits for the first read, on the thread of the connection: a client that
        # sends nothing must not keep others from being accepted.
        return (
            self._context.wrap_socket(accepted, server_side=True, do_handshake_on_connect=False),
            address,
        )

    def verify_request(self, request: Any, client_address: Any) -> bool:  # noqa: ANN401, ARG002 - as typeshed has it
        return self.places.enter(request)

    def shutdown_request(self, request: Any) -> None:  # noqa: ANN401 - as typeshed has it
        """Each connection ends here, whatever became of it."""
        self.places.leave(request)
        super().shutdown_request(request)

    def service_actions(self) -> None:
        """Called by `serve_forever` after each wait."""
        super().service_actions()
        self.places.drop_late()

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ANN401, ARG002 - as typeshed has it
        _log.debug("a scrape ended early: %s", sys.exc_info()[1])


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    server_version = "otel-ofu"
    sys_version = ""
    timeout = _PATIENCE_S

    def parse_request(self) -> bool:
        """False for a head that was cut off, which reads like a complete one."""
        return super().parse_request() and self.server.places.asked(self.connection)

    def do_GET(self) -> None:
        if self.path.partition("?")[0] != "/metrics":
            self._answer(HTTPStatus.NOT_FOUND, "the metrics are at /metrics\n")
        elif not self._may():
            self._answer(HTTPStatus.UNAUTHORIZED, "a bearer token is needed\n")
        else:
            self._answer(HTTPStatus.OK, self.server.text())

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name of the base
        """Scrapes are no news."""

    def _may(self) -> bool:
        if not self.server.token:
            return True
        given = self.headers.get("Authorization", "").encode("utf-8", "replace")
        return hmac.compare_digest(given, f"Bearer {self.server.token}".encode())

    def _answer(self, status: HTTPStatus, text: str) -> None:
        body = text.encode("utf-8", "replace")
        self.send_response(status)
        self.send_header("Content-Type", CONTENT_TYPE)
        self.send_header("Content-Length", str(len(body)))
        if status is HTTPStatus.UNAUTHORIZED:
            self.send_header("WWW-Authenticate", "Bearer")
        self.end_headers()
        self.wfile.write(body)
